package main

import (
	"log/slog"

	"github.com/capgate/capgate/internal/manifest"
	"github.com/capgate/capgate/internal/registry"
)

// brought are the manifests that backends bring, of which each capability has at most one in
// force.
type brought struct {
	text func(registry.Sum) string // "" for one that is not known
	log  *slog.Logger

	now, next map[registry.Sum]*manifest.Manifest // in force, and in the plan that is being made
}

// begin begins a plan, and end ends it.
func (b *brought) begin() { b.next = map[registry.Sum]*manifest.Manifest{} }

func (b *brought) end() { b.now, b.next = b.next, nil }

// of is the manifest that counts for the members of one capability, or nil. One that was in
// force is the same as before.
func (b *brought) of(members []registry.Member) *manifest.Manifest {
	sum := favourite(members)
	if sum == (registry.Sum{}) {
		return nil
	}
	m := b.now[sum]
	if m == nil {
		capability := members[0].Capability
		var err error
		if m, err = manifest.Parse("manifest of "+capability, []byte(b.text(sum))); err != nil {
			return nil // it was just withdrawn: the registry took no other
		}
		b.log.Info("manifest in force that backends brought", "capability", capability, "sha256", sum.String())
	}
	b.next[sum] = m
	return m
}

// favourite is the manifest that most members bring, and of several the one with the least sum,
// so that all replicas agree. It is zero if nobody brings one.
func favourite(members []registry.Member) (best registry.Sum) {
	var votes map[registry.Sum]int
	for i := range members {
		if sum := members[i].Manifest; sum != (registry.Sum{}) {
			if votes == nil {
				votes = map[registry.Sum]int{}
			}
			votes[sum]++
		}
	}
	for sum, n := range votes {
		if most := votes[best]; n > most || n == most && sum.Compare(best) < 0 {
			best = sum
		}
	}
	return best
}
