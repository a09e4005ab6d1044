package router_test

import (
	"fmt"
	"slices"
	"testing"

	"github.com/capgate/capgate/health"
	"github.com/capgate/capgate/router"
)

var sticky = router.Affinity{Sessions: true, Artifacts: true}

// homes returns the home backends of n sessions.
func (w *testFleet) homes(n int) []string {
	w.t.Helper()
	all := make([]string, n)
	for i := range all {
		if b := w.fleet.Home("default", fmt.Sprint("session-", i), nil); b != nil {
			all[i] = b.Addr
		}
	}
	return all
}

func moved(before, after []string) (n int) {
	for i := range before {
		if before[i] != after[i] {
			n++
		}
	}
	return n
}

// Gateways agree, whatever their zones and the order of their backends.
func TestGatewaysAgreeOnHomes(t *testing.T) {
	t.Parallel()
	backends := named(7)
	for i := range backends {
		backends[i].Weight, backends[i].Zone = 10*(i+1), string(rune('a'+i%2))
	}
	one := newTestFleet(t, router.FleetConfig{Backends: backends, Affinity: sticky}, "a")
	backends = slices.Clone(backends)
	slices.Reverse(backends)
	other := newTestFleet(t, router.FleetConfig{Backends: backends, Affinity: sticky}, "b")
	if n := moved(one.homes(10_000), other.homes(10_000)); n != 0 {
		t.Errorf("of 10,000 sessions %d have two homes", n)
	}
}

func TestHomesAreSpreadByWeight(t *testing.T) {
	t.Parallel()
	backends := named(4)
	backends[0].Weight, backends[3].Weight = 300, -1
	w := newTestFleet(t, router.FleetConfig{Backends: backends, Affinity: sticky}, "")
	got := map[string]float64{}
	for _, addr := range w.homes(20_000) {
		got[addr] += 1. / 20_000
	}
	for addr, want := range map[string]float64{"a0:1": .6, "a1:1": .2, "a2:1": .2, "a3:1": 0} {
		if !near(got[addr], want, .02) {
			t.Errorf("%s has %.3f of the sessions, want %.2f", addr, got[addr], want)
		}
	}
}

// Only the sessions of a removed backend get another home.
func TestHomesStay(t *testing.T) {
	t.Parallel()
	w := newTestFleet(t, router.FleetConfig{Backends: named(5), Affinity: sticky}, "")
	before := w.homes(10_000)
	w.health(up, down, up, up, up)
	after := w.homes(10_000)
	for i := range before {
		if before[i] != after[i] && before[i] != "a1:1" || after[i] == "a1:1" {
			t.Fatalf("a session went from %s to %s", before[i], after[i])
		}
	}
	w.health(up, up, up, up, up)
	if n := moved(before, w.homes(10_000)); n != 0 {
		t.Errorf("%d sessions do not come home", n)
	}
	for i, addr := range before {
		b := w.fleet.Backend(addr)
		if home := w.fleet.Home("default", fmt.Sprint("session-", i), b); home == nil || home == b {
			t.Fatalf("no other home; home %+v", home)
		}
	}
}

func TestHomesOfTenantsDiffer(t *testing.T) {
	t.Parallel()
	w := newTestFleet(t, router.FleetConfig{Backends: named(2), Affinity: sticky}, "")
	same := 0
	for i := range 10_000 {
		session := fmt.Sprint(i)
		if w.fleet.Home("one", session, nil) == w.fleet.Home("two", session, nil) {
			same++
		}
	}
	if same < 4500 || same > 5500 {
		t.Errorf("%d of 10,000 sessions of two tenants have the same of two homes", same)
	}
}

func TestHomeOfAnEmptyFleet(t *testing.T) {
	t.Parallel()
	w := newTestFleet(t, router.FleetConfig{Backends: named(1), Affinity: sticky}, "")
	only := w.fleet.Backend("a0:1")
	if got := w.fleet.Home("default", "s", only); got != only {
		t.Errorf("the only one is not taken: %v", got)
	}
	w.health(refused)
	if got := w.fleet.Home("default", "s", nil); got != nil {
		t.Errorf("at home at %s, where nobody is", got.Addr)
	}
	if r := w.fleet.NoHome("default", "s"); r.Reason != "NO_HEALTHY_BACKEND" || r.RetryAfter <= 0 {
		t.Errorf("%+v", r)
	}
}

func TestHomeAllocatesNothing(t *testing.T) {
	w := newTestFleet(t, router.FleetConfig{Backends: named(10), Affinity: sticky}, "")
	if n := testing.AllocsPerRun(100, func() { w.fleet.Home("default", "session", nil) }); n != 0 {
		t.Errorf("%v allocations", n)
	}
}

// A backend of one session serves no other, and the session has no other backend.
func TestReservedBackends(t *testing.T) {
	t.Parallel()
	backends := named(4)
	for i := range backends[2:] {
		backends[2+i].Session, backends[2+i].Tenant = "mine", "default"
	}
	w := newTestFleet(t, router.FleetConfig{Backends: backends}, "")
	for addr, share := range w.shares(1000) {
		if addr != "a0:1" && addr != "a1:1" {
			t.Errorf("%s gets %.2f of all calls", addr, share)
		}
	}
	for i, addr := range w.homes(1000) {
		if addr != "a0:1" && addr != "a1:1" {
			t.Errorf("session %d is at home at %s", i, addr)
		}
	}
	if !w.fleet.HasSessions() {
		t.Error("the fleet has no sessions")
	}
	for its, want := range map[[2]string]bool{
		{"default", "mine"}: true, {"default", ""}: false, {"other", "mine"}: false,
	} {
		if w.fleet.Reserved(its[0], its[1]) != want {
			t.Errorf("tenant and session %q are reserved: %t", its, !want)
		}
	}
	home := w.fleet.Home("default", "mine", nil)
	if home.Session != "mine" {
		t.Fatalf("at home at %s", home.Addr)
	}
	if other := w.fleet.Home("default", "mine", home); other == home || other.Session != "mine" {
		t.Errorf("the other one is %s", other.Addr)
	}
	if theirs := w.fleet.Home("other", "mine", nil); theirs.Session != "" {
		t.Errorf("another tenant's session of the same id is at home at %s", theirs.Addr)
	}
	// Ejections and panic mode do not affect them.
	claim := w.fleet.Acquire(home, false)
	claim.Done(router.Outcome{Class: router.Unreachable})
	w.health(refused, down, up, down)
	if w.fleet.Home("default", "mine", nil).Addr != "a2:1" || w.fleet.Stats().Ejected != 0 {
		t.Errorf("%+v", w.fleet.Stats())
	}
	w.health(up, up, down, refused)
	if home := w.fleet.Home("default", "mine", nil); home != nil || w.fleet.Stats().Panic {
		t.Errorf("who is down is at home, or panics: %v, %+v", home, w.fleet.Stats())
	}
	if r := w.fleet.NoHome("default", "mine"); r.Reason != "NO_HEALTHY_BACKEND" {
		t.Errorf("%+v", r)
	}
}

func TestOnlyReservedBackends(t *testing.T) {
	t.Parallel()
	backends := named(1)
	backends[0].Session, backends[0].Tenant = "mine", "default"
	w := newTestFleet(t, router.FleetConfig{Backends: backends}, "")
	if _, _, refusal := w.fleet.Route(nil); refusal == nil || refusal.Reason != "NO_BACKEND" {
		t.Errorf("%v", refusal)
	}
}

// An incarnation ends when connections are refused; failed probes and ejections do not end it.
func TestLives(t *testing.T) {
	t.Parallel()
	w := newTestFleet(t, router.FleetConfig{Backends: named(3), Affinity: sticky, SlowStart: -1}, "")
	b := w.fleet.Backend("a0:1")
	for i, step := range []struct {
		what  string
		do    func()
		alive bool
		life  uint32
	}{
		{"up", func() { w.health(up, up, up) }, true, 0},
		{"down", func() { w.health(down, up, up) }, false, 0},
		{"up again", func() { w.health(up, up, up) }, true, 0},
		{"ejected", func() { w.hit(b.Addr, router.Outcome{Class: router.Unreachable}) }, true, 0},
		{"a call finds nobody", b.MarkGone, true, 1},
		{"another one too", b.MarkGone, true, 1},
		{"and the probe", func() { w.health(refused, up, up) }, false, 1},
		{"it is there", func() { w.health(up, up, up) }, true, 1},
		{"and away", func() { w.health(refused, up, up) }, false, 2},
		{"in doubt", func() { w.health(down, down, down) }, true, 2},
		{"surely", func() { w.health(refused, down, down) }, false, 2},
	} {
		step.do()
		if b.Alive() != step.alive || b.Incarnation() != step.life {
			t.Fatalf("step %d, %s: alive %v, life %d", i, step.what, b.Alive(), b.Incarnation())
		}
	}
	w.health(up, up, up)
	b.MarkGone()
	claim := w.fleet.Acquire(b, false)
	claim.Done(router.Outcome{Class: router.Failed})
	claim = w.fleet.Acquire(b, false)
	claim.Done(router.Outcome{Class: router.Succeeded})
	if b.IsGone() || b.Incarnation() != 3 {
		t.Errorf("gone %v, life %d: a call that succeeds proves that somebody is there", b.IsGone(), b.Incarnation())
	}
}

// A draining backend keeps its sessions.
func TestOffIsAlive(t *testing.T) {
	t.Parallel()
	backends := named(3)
	backends[0].Weight = -1
	w := newTestFleet(t, router.FleetConfig{Backends: backends, Affinity: sticky}, "")
	w.health(up, up, up)
	if b := w.fleet.Backend("a0:1"); b == nil || !b.Alive() {
		t.Errorf("a backend of weight 0 is dead, or not there: %v", b)
	}
	if b := w.fleet.Backend("nobody:1"); b != nil {
		t.Error("a backend that is none")
	}
}

func BenchmarkHome(b *testing.B) {
	for _, n := range []int{2, 10, 100} {
		w := newTestFleet(b, router.FleetConfig{Backends: named(n), Affinity: sticky}, "")
		w.router.SetHealth(health.NewSnapshot("weather", nil))
		b.Run(fmt.Sprintf("backends=%d", n), func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				w.fleet.Home("default", "0f2c6f0a-session", nil)
			}
		})
	}
}
