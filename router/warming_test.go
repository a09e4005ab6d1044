package router_test

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/capgate/capgate/health"
	"github.com/capgate/capgate/internal/call"
	"github.com/capgate/capgate/internal/testkit/check"
	"github.com/capgate/capgate/router"
)

// join sets the backends of the fleet.
func (w *testFleet) join(backends ...router.BackendConfig) {
	w.t.Helper()
	w.router.Swap(newTable(w.t, router.Config{
		Fleets: []router.FleetConfig{{Capability: "weather", Backends: backends, SlowStart: -1}},
	}, w.router.Table()))
	w.fleet = w.router.Table().Fleet("weather")
}

// A new backend gets calls after its protocol is detected, unless no other backend surely accepts calls.
func TestWhoJoinsIsProbedFirst(t *testing.T) {
	t.Parallel()
	unknown := health.Backend{}
	for name, test := range map[string]struct {
		before  []health.Backend // backends before the change
		joins   router.BackendConfig
		probed  *health.Backend // of the one that joins
		waits   bool
		silence bool // the backend then stops reporting
	}{
		"beside a healthy one":               {before: []health.Backend{up, up}, waits: true},
		"beside one healthy and one down":    {before: []health.Backend{up, down}, waits: true},
		"beside those of which nobody knows": {before: []health.Backend{unknown, unknown}},
		"beside the dead":                    {before: []health.Backend{refused, refused}},
		"its dialect is configured": {
			before: []health.Backend{up, up}, joins: router.BackendConfig{Dialect: call.Live},
		},
		"once it is up": {before: []health.Backend{up, up}, probed: &up},
		"up, with no dialect of its own": {
			before: []health.Backend{up, up}, probed: &health.Backend{State: health.Up, Reason: "grpc.health.v1"},
		},
		"up, and not heard of since": {before: []health.Backend{up, up}, probed: &up, silence: true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newTestFleet(t, router.FleetConfig{Backends: named(2), SlowStart: -1}, "")
			w.health(test.before...)
			test.joins.Addr = "joins:1"
			w.join(append(named(2), test.joins)...)
			if test.probed != nil {
				w.health(append(test.before, *test.probed)...)
			}
			if test.silence {
				w.health(append(test.before, unknown)...)
			}
			if got := w.shares(1000)["joins:1"]; (got == 0) != test.waits {
				t.Errorf("it has %.3f of the calls", got)
			}
			if w.health(append(test.before, up)...); w.shares(1000)["joins:1"] == 0 {
				t.Error("it is up, and has no calls")
			}
		})
	}
}

// meet makes a call wait for a backend, and returns a function with the backend's dialect at the end of the wait.
func meet(t *testing.T, b *router.Backend) <-chan call.Dialect {
	t.Helper()
	met := make(chan call.Dialect, 2)
	if !b.Warming() {
		t.Fatal("nobody has probed it, and it is not warming")
	}
	if !b.Await(func() func() { return func() { met <- b.Dialect() } }) {
		t.Fatal("nobody has probed it, and calls do not wait for that")
	}
	return met
}

// Calls wait for a backend that was never probed, but not for long.
func TestStrangers(t *testing.T) {
	t.Parallel()
	live := health.Backend{State: health.Up, Dialect: call.Live}
	check.Bubble(t, func(t *testing.T) {
		w := newTestFleet(t, router.FleetConfig{}, "")
		w.join(router.BackendConfig{Addr: "a:1", Session: "mine"}, router.BackendConfig{Addr: "b:1"},
			router.BackendConfig{Addr: "c:1"},
			router.BackendConfig{Addr: "d:1", Dialect: call.Doc})
		a, b, c, d := w.fleet.Backends[0], w.fleet.Backends[1], w.fleet.Backends[2], w.fleet.Backends[3]
		if d.Warming() {
			t.Error("calls wait for what is configured")
		}
		began := time.Now()
		first, second, late := meet(t, a), meet(t, a), meet(t, b)
		w.health(health.Backend{}, health.Backend{}, health.Backend{}, health.Backend{})
		synctest.Wait()
		if n := len(first) + len(second) + len(late); n > 0 || !c.Warming() {
			t.Errorf("%d go on, and nothing is known; warming %t", n, c.Warming())
		}
		w.health(live, health.Backend{}, live, health.Backend{})
		if got := []call.Dialect{<-first, <-second}; got[0] != call.Live || got[1] != call.Live ||
			time.Since(began) > 0 {
			t.Errorf("they went on after %v with %v", time.Since(began), got)
		}
		if got := <-late; got != call.Auto || time.Since(began) != 500*time.Millisecond {
			t.Errorf("without a probe it went on after %v with %v", time.Since(began), got)
		}
		synctest.Wait()
		for _, known := range []*router.Backend{a, b, c} {
			if known.Warming() || known.Await(func() func() { return nil }) {
				t.Errorf("calls still wait for %s", known.Addr)
			}
		}
		w.join(router.Addrs("b:1", "new:1")...)
		for i, want := range []bool{false, true} {
			if b := w.fleet.Backends[i]; b.Warming() != want {
				t.Errorf("%s is warming: %t", b.Addr, !want)
			}
		}
	})
}
