package router

import "hash/maphash"

// index finds fleets by capability. It is a hash table with fewer cache misses than a map, which
// dominate a call's cost with many capabilities: one slot, then the fleet, which Route reads anyway.
type index struct {
	seed maphash.Seed
	// slots has a power of two as its length, and is at most three quarters full. A fleet is in the
	// first free slot from its hash on.
	slots []slot
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

// find returns the fleet of a capability, or nil.
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
