// Package announced chooses among the manifests that registered backends announce.
package announced

import (
	"log/slog"
	"maps"
	"slices"
	"strings"

	"github.com/capgate/capgate/internal/manifest"
	"github.com/capgate/capgate/internal/registry"
)

// Manifests are the manifests of registered backends. At most one for each capability is in effect: the
// most frequent one. A tool that only another manifest has is not considered removed, because the most frequent
// manifest may change several times while backends are replaced.
type Manifests struct {
	Text func(registry.Sum) string // "" for one that is not known
	Log  *slog.Logger

	known, next map[registry.Sum]*manifest.Manifest // brought, and in the plan that is being made
	force       map[string]registry.Sum             // by capability, the one that was last in force
}

// Begin begins a plan, and End ends it.
func (b *Manifests) Begin() { b.next = map[registry.Sum]*manifest.Manifest{} }

// End drops the manifests that the plan does not use.
func (b *Manifests) End() {
	b.known, b.next = b.next, nil
	maps.DeleteFunc(b.force, func(_ string, sum registry.Sum) bool { return b.known[sum] == nil })
}

// Held returns how many manifests are kept, and for how many capabilities one was in effect.
func (b *Manifests) Held() (manifests, capabilities int) { return len(b.known), len(b.force) }

// Of is the manifest that counts for the members of one capability, or nil, and the tools that
// only others have which members bring, one a line. A manifest that was there is the same as
// before.
func (b *Manifests) Of(members []registry.Member) (m *manifest.Manifest, elsewhere string) {
	votes := votesOf(members)
	sum := mostFrequent(votes)
	if sum == (registry.Sum{}) {
		return nil, ""
	}
	capability := members[0].Capability
	if m = b.parsed(sum, capability); m == nil {
		return nil, ""
	}
	if b.force[capability] != sum {
		if b.force == nil {
			b.force = map[string]registry.Sum{}
		}
		b.force[capability] = sum
		b.Log.Info("manifest of registered backends in effect", "capability", capability, "sha256", sum.String())
	}
	own := map[string]bool{}
	for i := range m.Tools {
		own[m.Tools[i].Name] = true
	}
	others := map[string]bool{}
	for other := range votes {
		if o := b.parsed(other, capability); other != sum && o != nil {
			for i := range o.Tools {
				if name := o.Tools[i].Name; !own[name] {
					others[name] = true
				}
			}
		}
	}
	return m, strings.Join(slices.Sorted(maps.Keys(others)), "\n")
}

// parsed is nil for a manifest that was just withdrawn: the registry takes none that is bad.
func (b *Manifests) parsed(sum registry.Sum, capability string) *manifest.Manifest {
	m := b.known[sum]
	if m == nil {
		m = b.next[sum]
	}
	if m == nil {
		var err error
		if m, err = manifest.Parse("manifest of "+capability, []byte(b.Text(sum))); err != nil {
			return nil
		}
	}
	b.next[sum] = m
	return m
}

// votesOf is how many members bring each manifest.
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
