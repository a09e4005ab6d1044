package policy

import (
	"hash/maphash"
	"math/bits"
	"sync/atomic"
)

// generations tell whether rules that may apply to a key have changed, without a search for the keys that a
// change affects: a change costs the same at any size of the cache.
//
// Each possible rule has a counter, which several rules share. The sum of the counters of all rules that
// may apply to a key is its generation. It grows with each change of one of these rules. A shared counter
// sometimes invalidates an unrelated key, which costs a query.
type generations struct {
	seed       maphash.Seed
	changes    atomic.Uint64 // of any rule; counted last
	everything atomic.Uint64 // changes of unknown rules
	counters   []atomic.Uint32
}

const (
	// countersPerEntry is the number of counters for each cache entry; it bounds how often a change invalidates
	// unrelated keys.
	countersPerEntry = 8
	// minCounters and maxCounters bound their memory: 256 KiB and 64 MiB.
	minCounters = 1 << 16
	maxCounters = 1 << 24
)

func newGenerations(entries int) *generations {
	n := min(max(entries, minCounters/countersPerEntry), maxCounters/countersPerEntry) * countersPerEntry
	return &generations{seed: maphash.MakeSeed(), counters: make([]atomic.Uint32, 1<<bits.Len(uint(n-1)))}
}

// change counts the change of a rule.
func (m *generations) change(c Change) {
	switch {
	case c.Everything, c.Tenant == "" && (c.User != "" || c.Agent != ""): // no such rule exists
		m.everything.Add(1)
	default:
		caller := m.caller(m.hash(c.Tenant), m.hash(c.User), m.hash(c.Agent))
		m.counter(caller, m.hash(c.Capability), m.hash(c.Tool)).Add(1)
	}
	m.changes.Add(1)
}

// of returns the current generation of a key.
func (m *generations) of(k *Key) uint64 {
	sum := m.everything.Load()
	none, anything := m.hash(""), m.hash(Any)
	what := [...]uint64{m.hash(k.Capability), m.hash(k.Tool)}
	add := func(caller uint64) {
		for _, capability := range [...]uint64{what[0], anything} {
			for _, tool := range [...]uint64{what[1], anything} {
				sum += uint64(m.counter(caller, capability, tool).Load())
			}
		}
	}
	if k.Tenant != "" {
		tenant, user, agent := m.hash(k.Tenant), m.hash(k.User), m.hash(k.Agent)
		if k.User != "" && k.Agent != "" {
			add(m.caller(tenant, user, agent))
		}
		if k.User != "" {
			add(m.caller(tenant, user, none))
		}
		if k.Agent != "" {
			add(m.caller(tenant, none, agent))
		}
		add(m.caller(tenant, none, none))
	}
	add(m.caller(none, none, none))
	return sum
}

func (m *generations) hash(word string) uint64 { return maphash.String(m.seed, word) }

func (*generations) caller(tenant, user, agent uint64) uint64 {
	return mix(mix(mix(1, tenant), user), agent)
}

func (m *generations) counter(caller, capability, tool uint64) *atomic.Uint32 {
	return &m.counters[mix(mix(caller, capability), tool)&uint64(len(m.counters)-1)]
}

// mix combines two hashes. The order matters.
func mix(h, next uint64) uint64 {
	high, low := bits.Mul64(h^next^0x9e3779b97f4a7c15, h+next|1)
	return (high ^ low) * 0xbf58476d1ce4e5b9
}
