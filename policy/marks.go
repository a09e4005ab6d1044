package policy

import (
	"hash/maphash"
	"math/bits"
	"sync/atomic"
)

// marks tell whether rules have changed that may be about a key, without looking for the
// keys that a change is about: a change of a rule costs the same whatever is in the cache.
//
// Each possible rule has a counter, which some share. The sum of those of all rules that may be
// about a key is its stamp. It only grows, and does with each change of one of these rules;
// a counter that is shared makes it grow now and then for nothing, which costs a question.
type marks struct {
	seed       maphash.Seed
	changes    atomic.Uint64 // of any rule; counted last
	everything atomic.Uint64 // changes of which nobody knows what they were about
	counters   []atomic.Uint32
}

const (
	// sharing bounds how often a change touches what it is not about: there are so many
	// counters for each entry of the cache.
	sharing = 8
	// leastCounters and mostCounters bound the memory that they take: 256 KiB and 64 MiB.
	leastCounters = 1 << 16
	mostCounters  = 1 << 24
)

func newMarks(entries int) *marks {
	n := min(max(entries, leastCounters/sharing), mostCounters/sharing) * sharing
	return &marks{seed: maphash.MakeSeed(), counters: make([]atomic.Uint32, 1<<bits.Len(uint(n-1)))}
}

// change says that a rule has changed.
func (m *marks) change(c Change) {
	switch {
	case c.Everything, c.Tenant == "" && (c.User != "" || c.Agent != ""): // there is no such rule
		m.everything.Add(1)
	default:
		who := m.who(m.hash(c.Tenant), m.hash(c.User), m.hash(c.Agent))
		m.counter(who, m.hash(c.Capability), m.hash(c.Tool)).Add(1)
	}
	m.changes.Add(1)
}

// stamp is what all changes so far that may be about a key come to.
func (m *marks) stamp(k *Key) uint64 {
	sum := m.everything.Load()
	none, anything := m.hash(""), m.hash(Any)
	what := [...]uint64{m.hash(k.Capability), m.hash(k.Tool)}
	add := func(who uint64) {
		for _, capability := range [...]uint64{what[0], anything} {
			for _, tool := range [...]uint64{what[1], anything} {
				sum += uint64(m.counter(who, capability, tool).Load())
			}
		}
	}
	if k.Tenant != "" {
		tenant, user, agent := m.hash(k.Tenant), m.hash(k.User), m.hash(k.Agent)
		if k.User != "" && k.Agent != "" {
			add(m.who(tenant, user, agent))
		}
		if k.User != "" {
			add(m.who(tenant, user, none))
		}
		if k.Agent != "" {
			add(m.who(tenant, none, agent))
		}
		add(m.who(tenant, none, none))
	}
	add(m.who(none, none, none))
	return sum
}

func (m *marks) hash(word string) uint64 { return maphash.String(m.seed, word) }

func (*marks) who(tenant, user, agent uint64) uint64 { return mix(mix(mix(1, tenant), user), agent) }

func (m *marks) counter(who, capability, tool uint64) *atomic.Uint32 {
	return &m.counters[mix(mix(who, capability), tool)&uint64(len(m.counters)-1)]
}

// mix adds one hash to another. The order matters.
func mix(h, next uint64) uint64 {
	high, low := bits.Mul64(h^next^0x9e3779b97f4a7c15, h+next|1)
	return (high ^ low) * 0xbf58476d1ce4e5b9
}
