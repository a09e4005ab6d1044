package main

import (
	"slices"
	"time"

	"github.com/capgate/capgate/health"
)

// tally counts probes and transitions.
type tally struct {
	probes      uint64
	probers     [][]*node // for each backend, replicas that have probed it in this phase
	transitions uint64    // sent to routers

	down        []int       // for each backend, replicas that consider it down
	first, last []time.Time // when the first and the last replica did
}

func newTally(backends int) *tally {
	return &tally{
		probers: make([][]*node, backends), down: make([]int, backends),
		first: make([]time.Time, backends), last: make([]time.Time, backends),
	}
}

// beginPhase resets the probers.
func (t *tally) beginPhase() {
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

// mostProbers returns the largest number of replicas that have probed one backend in this phase.
func (t *tally) mostProbers(which func(i int) bool) int {
	most := 0
	for i := range t.probers {
		if which(i) {
			most = max(most, len(t.probers[i]))
		}
	}
	return most
}

// record counts the transitions of a change that a replica sends to its router.
func (t *tally) record(now time.Time, c health.Change) {
	for _, n := range c.Transitions {
		t.transitions++
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
