package main

import (
	"fmt"
	"time"

	"github.com/capgate/capgate/health"
)

const (
	perFleet  = 10
	firstPort = 50000
)

// simulation is the simulated system.
type simulation struct {
	clock    *clock
	redis    *redis
	fleets   []health.Fleet
	backends int
	share    int // percentage of the backends that are dead
	earlier  int // replicas of an earlier version
	tally    *tally
}

func newSimulation(backends int) *simulation {
	c := &clock{now: time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)}
	w := &simulation{
		clock: c, redis: &redis{clock: c, ahead: 11 * time.Minute, members: map[string]memberEntry{}},
		backends: backends, tally: newTally(backends),
	}
	for i := range backends / perFleet {
		f := health.Fleet{Capability: fmt.Sprintf("capability-%d", i)}
		for j := range perFleet {
			f.Backends = append(f.Backends, fmt.Sprintf("10.%d.%d.%d:%d", i>>16, i>>8&255, i&255, firstPort+j))
		}
		w.fleets = append(w.fleets, f)
	}
	return w
}

// dead reports whether a backend is dead.
func (w *simulation) dead(i int) bool  { return i*7919%100 < w.share }
func (w *simulation) alive(i int) bool { return !w.dead(i) }

// kill stops the last n replicas at once.
func (w *simulation) kill(n int) {
	living := len(w.redis.nodes) - n
	for _, n := range w.redis.nodes[living:] {
		n.dead = true
	}
	w.redis.nodes = w.redis.nodes[:living]
}

// count returns the number of replicas for which ok returns true.
func (w *simulation) count(ok func(*node) bool) int {
	n := 0
	for _, node := range w.redis.nodes {
		if ok(node) {
			n++
		}
	}
	return n
}

// agrees reports whether a replica agrees with the observations that all replicas have published.
func (w *simulation) agrees(n *node) bool {
	s := n.replica.Stats()
	return s.Replicas == len(w.redis.nodes) && s.Agree == s.Replicas && s.Unpublished == 0
}

// written reports whether Redis has an observation of every backend.
func (w *simulation) written() bool {
	n := 0
	for i := range w.redis.shards {
		for k := range w.redis.shards[i].observations {
			if k.Role == health.Primary {
				n++
			}
		}
	}
	return n == w.backends
}
