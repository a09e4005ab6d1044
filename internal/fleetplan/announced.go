package fleetplan

import (
	"maps"
	"slices"
	"strings"

	"github.com/capgate/capgate/internal/manifest"
	"github.com/capgate/capgate/internal/registry"
)

// manifests holds the manifests that registered backends announce. At most one for each capability is in effect: the
// most frequent one. A tool that only another manifest has is not considered removed, because the most frequent
// manifest may change several times while backends are replaced.
type manifests struct {
	known, next map[registry.Sum]*manifest.Manifest // of the last plan, and of the one that is being made
	inEffect    map[string]registry.Sum             // by capability
}

// begin begins a plan, and end ends it.
func (b *manifests) begin() { b.next = map[registry.Sum]*manifest.Manifest{} }

// end drops the manifests that the plan does not use.
func (b *manifests) end() {
	b.known, b.next = b.next, nil
	maps.DeleteFunc(b.inEffect, func(_ string, sum registry.Sum) bool { return b.known[sum] == nil })
}

// of returns the manifest in effect for the members of one capability, or nil, and the tools that only other manifests
// of these members have, one a line. An unchanged manifest is the same pointer as before.
func (b *manifests) of(p *Planner, members []registry.Member) (m *manifest.Manifest, elsewhere string) {
	votes := votesOf(members)
	sum := mostFrequent(votes)
	if sum == (registry.Sum{}) {
		return nil, ""
	}
	capability := members[0].Capability
	if m = b.find(p, sum); m == nil {
		return nil, ""
	}
	if b.inEffect[capability] != sum {
		if b.inEffect == nil {
			b.inEffect = map[string]registry.Sum{}
		}
		b.inEffect[capability] = sum
		p.Log.Info("manifest of registered backends in effect", "capability", capability, "sha256", sum.String())
	}
	own := map[string]bool{}
	for i := range m.Tools {
		own[m.Tools[i].Name] = true
	}
	others := map[string]bool{}
	for other := range votes {
		if o := b.find(p, other); other != sum && o != nil {
			for i := range o.Tools {
				if name := o.Tools[i].Name; !own[name] {
					others[name] = true
				}
			}
		}
	}
	return m, strings.Join(slices.Sorted(maps.Keys(others)), "\n")
}

// find returns nil for a manifest that was just withdrawn.
func (b *manifests) find(p *Planner, sum registry.Sum) *manifest.Manifest {
	m := b.known[sum]
	if m == nil {
		m = b.next[sum]
	}
	if m == nil {
		if m = p.Manifest(sum); m == nil {
			return nil
		}
	}
	b.next[sum] = m
	return m
}

// votesOf returns how many members announce each manifest.
func votesOf(members []registry.Member) map[registry.Sum]int {
	var votes map[registry.Sum]int
	for i := range members {
		if sum := members[i].Manifest; sum != (registry.Sum{}) {
			if votes == nil {
				votes = map[registry.Sum]int{}
			}
			votes[sum]++
		}
	}
	return votes
}

// mostFrequent returns the manifest that most members have; among equals, the one with the least sum, so that all
// replicas agree. It is zero if no member has one.
func mostFrequent(votes map[registry.Sum]int) (best registry.Sum) {
	for sum, n := range votes {
		if most := votes[best]; n > most || n == most && sum.Compare(best) < 0 {
			best = sum
		}
	}
	return best
}
