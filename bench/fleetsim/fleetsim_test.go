package main

import (
	"math"
	"testing"
	"time"
)

// TestAllAgree: all replicas agree after every fault, and a backend whose observations Redis has lost does not count as
// down. One replica probes a backend, and a second one while it is down. That is so during an upgrade as well.
func TestAllAgree(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ replicas, earlier int }{{2, 0}, {5, 0}, {20, 0}, {2, 1}, {20, 10}} {
		w, replicas := newSimulation(500), c.replicas
		w.earlier = c.earlier
		start, steady, failure, empty, fewer := w.begin(replicas), w.steadyState(), w.massFailure(30), w.emptyRestart(),
			w.replicasDie(max(1, replicas/4))
		for _, p := range []*phase{start, steady, failure, empty, fewer} {
			if p.agree != p.replicas {
				t.Errorf("%d replicas, %s: %d of %d agree", replicas, p.name, p.agree, p.replicas)
			}
		}
		if f := failure; f.missed > 0 || len(f.known) != 150 {
			t.Errorf("%d replicas: %d deaths are known to all, %d are not", replicas, len(f.known), f.missed)
		}
		if empty.transitions > 0 || empty.recovery < 0 {
			t.Errorf("%d replicas, an empty Redis: %d transitions, written again: %v", replicas, empty.transitions,
				empty.recovery)
		}
		for _, p := range []*phase{steady, failure, empty} {
			if p.live > 1 || p.down > 2 {
				t.Errorf("%d replicas, %s: %d probe a backend that is up, %d one that is down", replicas, p.name,
					p.live, p.down)
			}
		}
		if fewer.recovery < 0 || fewer.transitions > 0 {
			t.Errorf("%d replicas, when some died: taken over: %v, %d transitions", replicas, fewer.recovery,
				fewer.transitions)
		}
	}
}

// TestSteadyCosts: in the steady state, the number of probes depends only on the number of backends, and the number of
// Redis commands only on the number of replicas.
func TestSteadyCosts(t *testing.T) {
	t.Parallel()
	steady := func(replicas, backends int) *phase {
		w := newSimulation(backends)
		w.begin(replicas)
		return w.run("steady state", 2*time.Minute, nil)
	}
	few, more, large := steady(4, 500), steady(16, 500), steady(16, 2000)
	alike := func(what string, a, b float64) {
		t.Helper()
		if math.Abs(a-b) > 0.15*max(a, b) {
			t.Errorf("%s: %.2f and %.2f a second", what, a, b)
		}
	}
	alike("probes of 500 backends by 4 and by 16 replicas", few.probes, more.probes)
	alike("probes of 500 and of a quarter of 2,000", more.probes, large.probes/4)
	alike("commands of one of 4 and of one of 16 replicas", few.commands/4, more.commands/16)
	alike("commands of a replica for 500 and for 2,000", more.commands, large.commands)
	for _, p := range []*phase{few, more, large} {
		if p.events > 0 {
			t.Errorf("%.1f notices a second while nothing happens", p.events)
		}
	}
}
