package router_test

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/capgate/capgate/internal/testkit/check"
	"github.com/capgate/capgate/router"
)

// A drained backend keeps its calls and gets no new ones, across configuration changes, until the drain ends.
func TestDrain(t *testing.T) {
	t.Parallel()
	w := newTestFleet(t, router.FleetConfig{Backends: named(3), SlowStart: -1}, "")
	b, claim, _ := w.fleet.Route(nil)
	drains := []router.Drain{{Addr: b.Addr, Since: time.Unix(1, 0)}, {Addr: "unknown:1"}}
	for _, of := range named(3) {
		drains = append(drains, router.Drain{Capability: "another", Addr: of.Addr})
	}
	w.router.SetDrains(drains)
	check := func() {
		t.Helper()
		if got := w.shares(1000); got[b.Addr] != 0 {
			t.Errorf("%v", got)
		}
		if s := w.fleet.Stats(); s.Draining != 1 || s.Usable != 2 || s.Panic {
			t.Errorf("%+v", s)
		}
	}
	check()
	if !b.Draining() || b.InFlight() != 1 {
		t.Errorf("draining %v, %d in flight", b.Draining(), b.InFlight())
	}
	if n := w.fleet.UsableWithout("a9:1"); n != 2 {
		t.Errorf("%d usable", n)
	}
	next := named(4)[:3]
	next[1].Weight = 50
	w.router.Swap(newTable(t, router.Config{
		Fleets: []router.FleetConfig{{Capability: "weather", Backends: next, SlowStart: -1}},
	}, w.router.Table()))
	w.fleet = w.router.Table().Fleet("weather")
	check()
	claim.Done(ok)
	w.router.SetDrains(nil)
	if got := w.shares(1000); got[b.Addr] == 0 || b.Draining() {
		t.Errorf("%v; %s is draining: %t", got, b.Addr, b.Draining())
	}
}

// A backend of a new table is drained from the start.
func TestDrainComesBeforeItsBackend(t *testing.T) {
	t.Parallel()
	w := newTestFleet(t, router.FleetConfig{Backends: named(1)}, "")
	w.router.SetDrains([]router.Drain{{Capability: "weather", Addr: "a1:1"}})
	w.router.Swap(newTable(t, router.Config{
		Fleets: []router.FleetConfig{{Capability: "weather", Backends: named(2), SlowStart: -1}},
	}, w.router.Table()))
	w.fleet = w.router.Table().Fleet("weather")
	if got := w.shares(1000); got["a1:1"] != 0 {
		t.Errorf("%v", got)
	}
}

// With all backends drained calls are rejected.
func TestDrainOfAll(t *testing.T) {
	t.Parallel()
	w := newTestFleet(t, router.FleetConfig{Backends: named(1)}, "")
	if n := w.fleet.UsableWithout("a0:1"); n != 0 {
		t.Errorf("%d usable", n)
	}
	w.router.SetDrains([]router.Drain{{Addr: "a0:1"}})
	if _, _, refusal := w.fleet.Route(nil); refusal == nil || refusal.Reason != "NO_BACKEND" {
		t.Errorf("%v", refusal)
	}
}

// A drain of all backends ends the waits for them: nothing is left to come.
func TestDrainEndsWaits(t *testing.T) {
	t.Parallel()
	check.Bubble(t, func(t *testing.T) {
		w := newTestFleet(t, router.FleetConfig{Backends: named(2), WaitForReady: time.Hour}, "")
		w.health(refused, refused)
		began, resumed := time.Now(), make(chan struct{})
		wait := w.fleet.AwaitReady("acme", "", func() func() { return func() { close(resumed) } })
		if wait == nil {
			t.Fatal("the call does not wait")
		}
		w.router.SetDrains([]router.Drain{{Addr: "a0:1"}})
		if w.fleet.Ready("acme", "") {
			t.Error("ready, although a backend may come")
		}
		synctest.Wait()
		select {
		case <-resumed:
			t.Error("resumed, although a backend may come")
		default:
		}
		w.router.SetDrains([]router.Drain{{Addr: "a0:1"}, {Addr: "a1:1"}})
		<-resumed
		if waited := time.Since(began); waited > 0 {
			t.Errorf("resumed after %v", waited)
		}
		if wait.Cancel() {
			t.Error("a wait that was resumed can be cancelled")
		}
	})
}

// Tables share their equal fleets.
func TestSwapKeepsFleets(t *testing.T) {
	t.Parallel()
	fleets := []router.FleetConfig{
		{Capability: "a", Backends: router.Addrs("a:1")}, {Capability: "b", Backends: router.Addrs("b:1")},
	}
	r := router.New(newTable(t, router.Config{Fleets: fleets}, nil))
	before := r.Table()
	fleets[1].Backends = router.Addrs("b:1", "b:2")
	r.Swap(newTable(t, router.Config{Fleets: fleets}, before))
	after := r.Table()
	if after.Fleet("a") != before.Fleet("a") {
		t.Error("a fleet that did not change is not the same")
	}
	if after.Fleet("b") == before.Fleet("b") {
		t.Error("a fleet that changed is the same")
	}
	if after.Fleet("b").Backends[0] != before.Fleet("b").Backends[0] {
		t.Error("a backend that stayed is not the same")
	}
	fleets[0].Secure = true
	r.Swap(newTable(t, router.Config{Fleets: fleets}, after))
	if r.Table().Fleet("a").Backends[0] == after.Fleet("a").Backends[0] {
		t.Error("a backend that is reached in another way is the same")
	}
}
