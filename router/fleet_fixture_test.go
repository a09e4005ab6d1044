package router_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/capgate/capgate/health"
	"github.com/capgate/capgate/router"
)

// testFleet is one fleet and a clock that only the test advances.
type testFleet struct {
	t       testing.TB
	now     time.Duration
	router  *router.Router
	fleet   *router.Fleet
	ejected map[string][]time.Duration // by address, how long each time
}

func newTestFleet(t testing.TB, cfg router.FleetConfig, zone string) *testFleet {
	t.Helper()
	w := &testFleet{t: t, ejected: map[string][]time.Duration{}}
	cfg.Capability = "weather"
	w.router = router.New(newTable(t, router.Config{
		Zone: zone, Fleets: []router.FleetConfig{cfg}, Clock: func() time.Time { return time.Unix(0, 0).Add(w.now) },
		Ejected: func(b *router.Backend, _ router.Class, lasts time.Duration) {
			w.ejected[b.Addr] = append(w.ejected[b.Addr], lasts)
		},
	}, nil))
	w.fleet = w.router.Table().Fleet("weather")
	return w
}

// named returns n backends a0:1, a1:1 and so on.
func named(n int) []router.BackendConfig {
	var addrs []string
	for i := range n {
		addrs = append(addrs, fmt.Sprintf("a%d:1", i))
	}
	return router.Addrs(addrs...)
}

// call routes one call and ends it at once with the outcome end.
func (w *testFleet) call(end func(addr string) router.Outcome) (addr string) {
	w.t.Helper()
	b, claim, refusal := w.fleet.Route(nil)
	if refusal != nil {
		w.t.Fatal(refusal)
	}
	claim.Done(end(b.Addr))
	return b.Addr
}

// shares makes n calls that succeed at once, and returns each backend's share.
func (w *testFleet) shares(n int) map[string]float64 {
	w.t.Helper()
	got := map[string]float64{}
	for range n {
		got[w.call(func(string) router.Outcome { return router.Outcome{Class: router.Succeeded} })] += 1 / float64(n)
	}
	return got
}

// hit ends one call at the backend addr, wherever the others go.
func (w *testFleet) hit(addr string, o router.Outcome) {
	w.t.Helper()
	var open []router.Permit
	for range 10_000 {
		b, claim, refusal := w.fleet.Route(nil)
		if refusal != nil {
			w.t.Fatal(refusal)
		}
		if b.Addr == addr {
			claim.Done(o)
			for _, claim := range open {
				claim.Done(router.Outcome{})
			}
			return
		}
		open = append(open, claim) // makes the others look busy
	}
	w.t.Fatalf("no call comes to %s", addr)
}

func (w *testFleet) health(states ...health.Backend) {
	for i := range states {
		states[i].Addr = w.fleet.Backends[i].Addr
	}
	w.router.SetHealth(health.NewSnapshot("weather", states))
}

var (
	up      = health.Backend{State: health.Up}
	down    = health.Backend{State: health.Down}
	refused = health.Backend{State: health.Down, Refused: true}
)

func near(got, want, within float64) bool { return got >= want-within && got <= want+within }
