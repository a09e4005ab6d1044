package router

import "hash/maphash"

// index finds fleets by capability. It does what a map does with fewer misses of the
// cache, of which the way of a call consists when there are many capabilities: one slot,
// and then the fleet itself, which Route is about to read anyway.
type index struct {
	seed  maphash.Seed
	slots []slot // a power of two, at most three quarters of them taken; a fleet is in the first free one from its hash on
}

type slot struct {
	hash  uint64
	fleet *Fleet // nil: free
}

func newIndex(fleets []*Fleet) index {
	n := 2
	for 3*n < 4*len(fleets) {
		n *= 2
	}
	x := index{seed: maphash.MakeSeed(), slots: make([]slot, n)}
	for _, f := range fleets {
		hash := maphash.String(x.seed, f.Capability)
		at := hash & uint64(n-1)
		for x.slots[at].fleet != nil {
			at = (at + 1) & uint64(n-1)
		}
		x.slots[at] = slot{hash, f}
	}
	return x
}

// find returns the fleet of a capability, nil if there is none.
func (x *index) find(capability string) *Fleet {
	hash := maphash.String(x.seed, capability)
	last := uint64(len(x.slots) - 1)
	for at := hash & last; ; at = (at + 1) & last {
		s := &x.slots[at]
		if s.fleet == nil || s.hash == hash && s.fleet.Capability == capability {
			return s.fleet
		}
	}
}
