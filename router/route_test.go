package router_test

import (
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/capgate/capgate/health"
	"github.com/capgate/capgate/internal/call"
	"github.com/capgate/capgate/router"
)

func fleetOf(t testing.TB, backends ...string) (*router.Router, *router.Fleet) {
	t.Helper()
	r := router.New(newTable(t, router.Config{
		Fleets: []router.FleetConfig{{Capability: "weather", Backends: router.Addrs(backends...)}},
	}, nil))
	return r, r.Table().Fleet("weather")
}

func states(up map[string]health.State) *health.Snapshot {
	var backends []health.Backend
	for addr, state := range up {
		backends = append(backends, health.Backend{
			Addr: addr, State: state, Dialect: call.Live, Refused: state == health.Down,
		})
	}
	return health.NewSnapshot("weather", backends)
}

func TestRouteAvoidsWhatIsDown(t *testing.T) {
	t.Parallel()
	r, f := fleetOf(t, "a:1", "b:1", "c:1")
	// c stays unknown
	r.SetHealth(states(map[string]health.State{"a:1": health.Down, "b:1": health.Up, "gone:1": health.Up}))
	seen := map[string]int{}
	for range 200 {
		b, claim, refusal := f.Route(nil)
		if refusal != nil {
			t.Fatal(refusal)
		}
		seen[b.Addr]++
		claim.Done(ok)
	}
	if seen["a:1"] != 0 || seen["b:1"] == 0 || seen["c:1"] == 0 {
		t.Errorf("calls by backend: %v", seen)
	}
	if ok, summary := f.Health().Ready(); !ok || summary != "1 of 3 backends ready, 1 not checked yet" {
		t.Errorf("ready %v, %q", ok, summary)
	}
}

func TestRouteRefuses(t *testing.T) {
	t.Parallel()
	r, f := fleetOf(t, "a:1", "b:1")
	r.SetHealth(states(map[string]health.State{"a:1": health.Down, "b:1": health.Down}))
	_, claim, refusal := f.Route(nil)
	if claim != (router.Permit{}) || refusal == nil || refusal.Kind != call.Unavailable ||
		refusal.Reason != "NO_HEALTHY_BACKEND" || refusal.RetryAfter <= 0 {
		t.Errorf("all down: %+v; claim %+v", refusal, claim)
	}
	if ok, summary := f.Health().Ready(); ok || summary != "0 of 2 backends ready" {
		t.Errorf("ready %v, %q", ok, summary)
	}
	r.SetHealth(states(map[string]health.State{"a:1": health.Up, "b:1": health.Down}))
	if b, _, _ := f.Route(nil); b == nil || b.Addr != "a:1" {
		t.Errorf("after a came back: %+v", b)
	}

	_, empty := fleetOf(t)
	if _, _, refusal := empty.Route(nil); refusal == nil || refusal.Kind != call.Unavailable ||
		refusal.Reason != "NO_BACKEND" {
		t.Errorf("no backends: %+v", refusal)
	}
}

func TestRouteSecondTry(t *testing.T) {
	t.Parallel()
	_, f := fleetOf(t, "a:1", "b:1", "c:1")
	for range 100 {
		first, _, _ := f.Route(nil)
		second, _, _ := f.Route(first)
		if first == second {
			t.Fatal("the second try went where the first had failed")
		}
	}
	_, single := fleetOf(t, "a:1")
	first, _, _ := single.Route(nil)
	if second, _, refusal := single.Route(first); second != first {
		t.Errorf("the only backend was not tried again: %v", refusal)
	}
}

// With concurrent calls of equal length, power of two choices keeps every backend close to its share, unlike one
// random choice.
func TestRouteBalances(t *testing.T) {
	t.Parallel()
	var names []string
	for i := range 20 {
		names = append(names, fmt.Sprintf("b%d:1", i))
	}
	_, f := fleetOf(t, names...)
	const share = 100
	for range share * len(names) {
		if _, _, refusal := f.Route(nil); refusal != nil {
			t.Fatal(refusal)
		}
	}
	for _, b := range f.Backends {
		if n := b.InFlight(); n < share-10 || n > share+10 {
			t.Errorf("%s has %d calls, want about %d", b.Addr, n, share)
		}
	}
}

func TestRouteWhileEverythingChanges(t *testing.T) {
	t.Parallel()
	r, f := fleetOf(t, "a:1", "b:1")
	stop := make(chan struct{})
	var changes, calls sync.WaitGroup
	changes.Go(func() {
		for i := 0; ; i++ {
			select {
			case <-stop:
				return
			default:
			}
			r.SetHealth(states(map[string]health.State{"a:1": health.State(1 + i%2), "b:1": health.Up}))
			next, err := router.NewTable(router.Config{
				Fleets: []router.FleetConfig{{Capability: "weather", Backends: router.Addrs("a:1", "b:1")}},
			}, r.Table())
			if err != nil {
				t.Error(err)
				return
			}
			r.Swap(next)
		}
	})
	for range 4 {
		calls.Go(func() {
			for i := range 2000 {
				fleet, refusal := r.Table().Resolve(router.Key{Metadata: "weather"}, all{})
				if refusal != nil {
					t.Error(refusal)
					return
				}
				b, claim, refusal := fleet.Route(nil)
				if refusal != nil {
					t.Error(refusal)
					return
				}
				_ = b.Dialect()
				_ = fleet.AllowRetry()
				_ = fleet.Stats()
				claim.Done(router.Outcome{Class: router.Class(i % 5), Latency: time.Second})
			}
		})
	}
	calls.Wait()
	close(stop)
	changes.Wait()
	for _, b := range f.Backends {
		if b.InFlight() != 0 {
			t.Errorf("%s: %d calls left", b.Addr, b.InFlight())
		}
	}
}

func TestSwapKeepsBackends(t *testing.T) {
	t.Parallel()
	r, f := fleetOf(t, "a:1", "b:1")
	r.SetHealth(states(map[string]health.State{"a:1": health.Down, "b:1": health.Up}))
	_, claim, _ := f.Route(nil)
	next := newTable(t, router.Config{Fleets: []router.FleetConfig{
		{Capability: "news", Backends: router.Addrs("b:1"), Dialect: call.Doc},
		{Capability: "weather", Backends: router.Addrs("c:1", "b:1", "a:1")},
	}}, r.Table())
	r.Swap(next)
	g := r.Table().Fleet("weather")
	if g.Backends[1] != f.Backends[1] || g.Backends[2] != f.Backends[0] {
		t.Errorf("backends that stay were made anew; g %+v", g)
	}
	if got := g.Backends[1]; got.InFlight() != 1 || got.Dialect() != call.Live {
		t.Errorf("b: %d in flight, dialect %v", got.InFlight(), got.Dialect())
	}
	claim.Done(ok)
	if d := r.Table().Fleet("news").Backends[0].Dialect(); d != call.Doc {
		t.Errorf("configured dialect doc, got %v", d)
	}
	for range 50 { // a is still down
		b, claim, _ := g.Route(nil)
		if b.Addr == "a:1" {
			t.Fatal("health was forgotten")
		}
		claim.Done(ok)
	}
}

// A configuration change keeps ejections, and new backends have a slow start.
func TestSwapKeepsEjections(t *testing.T) {
	t.Parallel()
	w := newTestFleet(t, router.FleetConfig{Backends: named(3)}, "")
	w.hit("a0:1", router.Outcome{Class: router.Unreachable})
	next := named(4)
	next[0].Weight = 50
	w.router.Swap(newTable(t, router.Config{
		Fleets: []router.FleetConfig{{Capability: "weather", Backends: next}},
	}, w.router.Table()))
	w.fleet = w.router.Table().Fleet("weather")
	if s := w.fleet.Stats(); s.Ejected != 1 || s.Ejections != 1 || s.Usable != 3 {
		t.Errorf("%+v", s)
	}
	if got := w.shares(10_000); got["a0:1"] != 0 || got["a3:1"] > .1 || got["a3:1"] == 0 {
		t.Errorf("%v", got)
	}
	w.hit("a1:1", router.Outcome{Class: router.Unreachable}) // ends at the table in force
	if s := w.fleet.Stats(); s.Ejected != 2 {
		t.Errorf("%+v", s)
	}
}

func TestDeadlines(t *testing.T) {
	t.Parallel()
	own := router.Deadlines{Default: time.Second, Max: 2 * time.Second, Stream: time.Minute}
	for _, test := range []struct {
		limits router.Deadlines
		method call.Method
		asked  time.Duration
		has    bool
		want   time.Duration
	}{
		{own, call.Invoke, 0, false, time.Second},
		{own, call.Invoke, 1500 * time.Millisecond, true, 1500 * time.Millisecond},
		{own, call.Invoke, time.Hour, true, 2 * time.Second},
		{own, call.Invoke, 0, true, 0},
		{own, call.StreamInvoke, 0, false, time.Minute},
		{own, call.UploadInputArtifact, 3 * time.Second, true, 3 * time.Second},
		{own, call.Other, time.Hour, true, time.Minute},
		{router.Deadlines{}, call.Invoke, 0, false, 120 * time.Second},
		{router.Deadlines{Off: true}, call.Other, 0, false, 0},
		{router.Deadlines{Off: true}, call.Other, 100 * time.Hour, true, 100 * time.Hour},
		{router.Deadlines{Off: true}, call.Invoke, time.Hour, true, 15 * time.Minute},
		{router.Deadlines{Off: true}, call.StreamInvoke, 0, false, time.Hour},
		{router.Deadlines{}, call.Invoke, time.Hour, true, 15 * time.Minute},
		{router.Deadlines{}, call.StreamInvoke, 0, false, time.Hour},
		{router.Deadlines{Max: time.Second}, call.Invoke, 0, false, time.Second},
	} {
		table := newTable(t, router.Config{Fleets: []router.FleetConfig{{Capability: "a", Deadlines: test.limits}}},
			nil)
		if got := table.Fleet("a").Deadlines.For(test.method, test.asked, test.has); got != test.want {
			t.Errorf("%+v %v asked %v %v: %v, want %v", test.limits, test.method, test.asked, test.has, got, test.want)
		}
	}
}
