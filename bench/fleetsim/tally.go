package main

import (
	"slices"
	"time"

	"github.com/capgate/capgate/health"
)

// tally counts what the replicas do and see.
type tally struct {
	probes  uint64
	probers [][]*node // of each backend, those who have probed it in this act
	news    uint64    // transitions told to routers

	down        []int       // of each backend, replicas that say that it is down
	first, last []time.Time // when the first and the last replica said so
}

func newTally(backends int) *tally {
	return &tally{
		probers: make([][]*node, backends), down: make([]int, backends),
		first: make([]time.Time, backends), last: make([]time.Time, backends),
	}
}

// act begins a new act.
func (t *tally) act() {
	for i := range t.probers {
		t.probers[i] = t.probers[i][:0]
	}
}

func (t *tally) probe(i int, by *node) {
	t.probes++
	if !slices.Contains(t.probers[i], by) {
		t.probers[i] = append(t.probers[i], by)
	}
}

// mostProbers returns how many replicas have probed one backend in this act.
func (t *tally) mostProbers(which func(i int) bool) int {
	most := 0
	for i := range t.probers {
		if which(i) {
			most = max(most, len(t.probers[i]))
		}
	}
	return most
}

// see takes what one replica tells its router.
func (t *tally) see(now time.Time, c health.Change) {
	for _, n := range c.Transitions {
		t.news++
		b := &c.Snapshot.Backends[n.Index]
		if b.State != health.Down {
			continue
		}
		i := index(c.Snapshot.Capability, b.Addr)
		if t.down[i] == 0 {
			t.first[i] = now
		}
		t.down[i]++
		t.last[i] = now
	}
}
