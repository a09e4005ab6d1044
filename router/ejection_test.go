package router_test

import (
	"math/rand/v2"
	"testing"
	"time"

	"github.com/capgate/capgate/health"
	"github.com/capgate/capgate/router"
)

func repeat(n int, o router.Outcome) []router.Outcome {
	var all []router.Outcome
	for range n {
		all = append(all, o)
	}
	return all
}

func TestWhatEjects(t *testing.T) {
	t.Parallel()
	fail := router.Outcome{Class: router.Failed}
	miss := router.Outcome{Class: router.Unreachable}
	quick := router.Outcome{Class: router.TimedOut, Latency: 999 * time.Millisecond}
	slow := router.Outcome{Class: router.TimedOut, Latency: time.Second}
	well := router.Outcome{Class: router.Succeeded}
	for name, test := range map[string]struct {
		outcomes []router.Outcome
		rules    router.Ejection
		want     bool
	}{
		"one failure":   {repeat(1, fail), router.Ejection{}, false},
		"four failures": {repeat(4, fail), router.Ejection{}, false},
		"five failures": {repeat(5, fail), router.Ejection{}, true},
		"a success between": {
			append(append(repeat(4, fail), well), repeat(4, fail)...), router.Ejection{}, false,
		},
		"a cancel between": {append(append(repeat(4, fail), router.Outcome{}), fail), router.Ejection{},
			true},
		"cancels":                     {repeat(100, router.Outcome{}), router.Ejection{}, false},
		"answers":                     {repeat(100, well), router.Ejection{}, false},
		"no connection":               {repeat(1, miss), router.Ejection{}, true},
		"no connection, three needed": {repeat(2, miss), router.Ejection{ConnectFailures: 3}, false},
		"no connection three times":   {repeat(3, miss), router.Ejection{ConnectFailures: 3}, true},
		"connections and calls are two": {
			append(repeat(2, miss), repeat(4, fail)...), router.Ejection{ConnectFailures: 3}, false,
		},
		"callers in a hurry":             {repeat(100, quick), router.Ejection{}, false},
		"callers that waited":            {repeat(5, slow), router.Ejection{}, true},
		"time-outs and failures are one": {append(repeat(3, slow), repeat(2, fail)...), router.Ejection{}, true},
		"two are enough":                 {repeat(2, fail), router.Ejection{Failures: 2}, true},
		"never": {
			append(repeat(100, fail), repeat(100, miss)...), router.Ejection{Failures: -1, ConnectFailures: -1}, false,
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newTestFleet(t, router.FleetConfig{Backends: named(3), Ejection: test.rules}, "")
			for _, o := range test.outcomes {
				w.hit("a1:1", o)
			}
			if got := w.fleet.Stats().Ejected == 1 && w.shares(100)["a1:1"] == 0; got != test.want {
				t.Errorf("ejected: %v, %+v", got, w.fleet.Stats())
			}
		})
	}
}

func TestEjectionsGrowAndAreForgiven(t *testing.T) {
	t.Parallel()
	w := newTestFleet(t, router.FleetConfig{Backends: named(3), SlowStart: -1}, "")
	miss := router.Outcome{Class: router.Unreachable}
	eject := func() time.Duration {
		t.Helper()
		w.hit("a0:1", miss)
		all := w.ejected["a0:1"]
		lasts := all[len(all)-1]
		w.now += lasts - 1
		if w.fleet.Stats().Ejected != 1 {
			t.Fatalf("back too early from %v", lasts)
		}
		w.now++
		if w.fleet.Stats().Ejected != 0 {
			t.Fatalf("not back after %v", lasts)
		}
		return lasts
	}
	base := 5 * time.Second
	for range 12 {
		if lasts := eject(); lasts > 5*time.Minute || lasts < min(base, 5*time.Minute)*8/10 || lasts > base*12/10 {
			t.Errorf("%v, want about %v", lasts, base)
		}
		base *= 2
	}
	w.hit("a0:1", router.Outcome{Class: router.Succeeded})
	if lasts := eject(); lasts > 6*time.Second {
		t.Errorf("%v after a success", lasts)
	}
	different := map[time.Duration]bool{}
	for _, lasts := range w.ejected["a0:1"] {
		different[lasts] = true
	}
	if len(different) < 6 {
		t.Errorf("no jitter: %v", w.ejected["a0:1"])
	}
}

// Calls that were at a backend when it was ejected have no effect at their end.
func TestEchoesOfAnEjection(t *testing.T) {
	t.Parallel()
	w := newTestFleet(t, router.FleetConfig{Backends: named(4), SlowStart: -1}, "")
	var there []router.Permit
	for len(there) < 20 {
		if b, claim, _ := w.fleet.Route(nil); b.Addr == "a0:1" {
			there = append(there, claim)
		}
	}
	for i, claim := range there {
		claim.Done(router.Outcome{Class: [...]router.Class{router.Unreachable, router.Succeeded, router.Failed}[i%3]})
	}
	if got := w.ejected["a0:1"]; len(got) != 1 {
		t.Errorf("ejected %v", got)
	}
	w.now += time.Minute
	w.hit("a0:1", router.Outcome{Class: router.Unreachable})
	if got := w.ejected["a0:1"]; len(got) != 2 || got[1] < 8*time.Second {
		t.Errorf("the second ejection is no longer than the first: %v", got)
	}
}

// In any situation at most half of the healthy backends are ejected, or all but one with closed ports, calls find a
// backend unless all are surely down, and a backend that must not get calls gets none.
func TestEjectionAndPanicLimits(t *testing.T) {
	t.Parallel()
	for n := 1; n <= 9; n++ {
		closed := n % 2 // 1: some failures are closed ports
		w := newTestFleet(t, router.FleetConfig{Backends: named(n)}, "")
		states := make([]health.Backend, n)
		index := map[string]int{}
		for i, b := range w.fleet.Backends {
			states[i], index[b.Addr] = up, i
		}
		for step := range 4000 {
			if rand.IntN(20) == 0 {
				states[rand.IntN(n)] = []health.Backend{up, up, down, refused}[rand.IntN(4)]
				w.health(append([]health.Backend(nil), states...)...)
			}
			w.now += time.Duration(rand.Int64N(int64(time.Second)))
			healthy, possible := 0, 0
			for _, s := range states {
				if s.State == health.Up {
					healthy++
				}
				if !s.Refused {
					possible++
				}
			}
			s := w.fleet.Stats()
			panicked := 2*healthy < n
			candidates := healthy
			if panicked {
				candidates = possible
			}
			most := candidates / 2
			if closed == 1 {
				most = max(candidates-1, 0)
			}
			if s.Panic != panicked || s.Ejected > most || s.Usable != candidates-s.Ejected || s.Down != n-candidates {
				t.Fatalf("%d backends, step %d: %+v with %d healthy, %d possible", n, step, s, healthy, possible)
			}
			b, claim, refusal := w.fleet.Route(nil)
			if (refusal != nil) != (candidates == 0) {
				t.Fatalf("%d backends, step %d: %v with %d candidates", n, step, refusal, candidates)
			}
			if refusal != nil {
				continue
			}
			if at := states[index[b.Addr]]; at.Refused || !panicked && at.State == health.Down {
				t.Fatalf("%d backends, step %d: a call went to one that is %+v", n, step, at)
			}
			claim.Done(router.Outcome{
				Class: router.Class(rand.IntN(5 + closed)), Latency: time.Duration(rand.Int64N(int64(3 * time.Second))),
			})
		}
	}
}

// In panic mode ejections are ignored, except those after refused connections.
func TestPanicTakesTheEjectedBack(t *testing.T) {
	t.Parallel()
	w := newTestFleet(t, router.FleetConfig{Backends: named(5)}, "")
	for range 5 {
		w.hit("a0:1", router.Outcome{Class: router.Failed})
	}
	w.hit("a1:1", router.Outcome{Class: router.Unreachable})
	if s := w.fleet.Stats(); s.Ejected != 2 || s.Usable != 3 {
		t.Fatalf("%+v", s)
	}
	w.hit("a2:1", router.Outcome{Class: router.Unreachable})
	if s := w.fleet.Stats(); s.Ejected != 2 || s.EjectionOverflow != 1 {
		t.Fatalf("%+v", s)
	}
	w.health(down, up, up, down, down)
	if s := w.fleet.Stats(); !s.Panic || s.Ejected != 1 || s.Usable != 4 {
		t.Errorf("%+v", s)
	}
	if got := w.shares(400); got["a0:1"] == 0 || got["a1:1"] != 0 || got["a3:1"] == 0 {
		t.Errorf("%v", got)
	}
}

// Failed probes count: the last available backend of a fleet is never ejected.
func TestProbesTakeOutWhatEjectionsLeft(t *testing.T) {
	t.Parallel()
	w := newTestFleet(t, router.FleetConfig{Backends: named(4)}, "")
	w.hit("a0:1", router.Outcome{Class: router.Unreachable})
	w.hit("a1:1", router.Outcome{Class: router.Unreachable})
	w.health(up, up, refused, refused)
	if s := w.fleet.Stats(); s.Usable != 1 || s.Ejected != 1 || s.Panic {
		t.Errorf("%+v", s)
	}
}

// TestClosedPortsMayBeAllButOne: they stay ejected before backends that are ejected for other failures, and all but
// one.
func TestClosedPortsMayBeAllButOne(t *testing.T) {
	t.Parallel()
	w := newTestFleet(t, router.FleetConfig{Backends: named(5)}, "")
	w.hit("a0:1", router.Outcome{Class: router.Unreachable})
	for i, want := range []int{2, 2, 3, 4} {
		w.hit(named(5)[i+1].Addr, router.Outcome{Class: router.Refused})
		if s := w.fleet.Stats(); s.Ejected != want || s.Usable != 5-want {
			t.Errorf("%d closed ports: %+v", i+1, s)
		}
	}
	w.health(up, up, up, down, up)
	if s := w.fleet.Stats(); s.Ejected != 3 || s.Usable != 1 {
		t.Errorf("with another one down: %+v", s)
	}
	if got := w.shares(100); got["a1:1"]+got["a2:1"] != 0 {
		t.Errorf("%v", got)
	}
}

// TestUntried: the least loaded usable backend that a call has not tried.
func TestUntried(t *testing.T) {
	t.Parallel()
	w := newTestFleet(t, router.FleetConfig{Backends: named(4)}, "")
	w.health(up, up, up, refused)
	_, permit, _ := w.fleet.Route(nil)
	defer permit.Done(router.Outcome{})
	var tried *router.Tried
	for i := range 3 {
		b := w.fleet.Untried(tried)
		if b == nil || tried.Has(b) || i < 2 == (b.InFlight() > 0) {
			t.Fatalf("after %d: %+v", i, b)
		}
		tried = tried.With(b)
	}
	if b := w.fleet.Untried(tried); b != nil {
		t.Errorf("after all: %s", b.Addr)
	}
}
