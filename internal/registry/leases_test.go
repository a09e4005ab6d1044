package registry_test

import (
	"context"
	"net/netip"
	"slices"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/capgate/capgate/internal/registry"
	"github.com/capgate/capgate/internal/testkit/check"
)

// replica returns a registry on a store, in a synctest bubble.
func replica(t *testing.T, leases registry.Leases) *runningRegistry {
	t.Helper()
	w := runPolling(t, leases, registry.Settings{Rules: rules()}, time.Second)
	w.settle(t)
	return w
}

// sees compares members once all replicas are idle.
func (w *runningRegistry) sees(t *testing.T, want ...string) {
	t.Helper()
	<-time.After(3 * time.Second) // of the bubble's clock: some polls
	synctest.Wait()
	w.wait(t, want...)
}

func register(t *testing.T, w *runningRegistry, g registry.Registration) registry.Registration {
	t.Helper()
	g, err := w.Register(t.Context(), g)
	check.Must(t, err)
	return g
}

const seven, eight = "weather 10.0.0.7:1 100 10.0.0.7 registration", "weather 10.0.0.8:1 100 10.0.0.8 registration"

func TestLeasesAreShared(t *testing.T) {
	t.Parallel()
	check.Bubble(t, func(t *testing.T) {
		store := newMemory()
		a, b := replica(t, store), replica(t, store)
		first := register(t, a, weather("10.0.0.7:1"))
		session := weather("10.0.0.8:1")
		session.Session, session.Weight, session.Zone = "s1", 5, "z"
		second := register(t, b, session)
		both := []string{seven, "weather 10.0.0.8:1 5@z session=s1 10.0.0.8 registration"}
		a.sees(t, both...)
		b.sees(t, both...)

		// Renewed by another replica than took it; the other one runs out.
		<-time.After(20 * time.Second)
		register(t, b, first)
		<-time.After(8 * time.Second)
		a.sees(t, seven)
		b.sees(t, seven)

		// A backend whose lease ran out registers again with a new lease.
		register(t, a, second)
		b.sees(t, both...)

		if err := b.Withdraw(t.Context(), first.Key(), first.Lease); err != nil {
			t.Error(err)
		}
		a.sees(t, both[1])
		b.sees(t, both[1])
		if err := b.Withdraw(t.Context(), first.Key(), ""); reason(t, err) != "REGISTRATION_UNKNOWN" {
			t.Error(err)
		}
	})
}

// The last registration has the lease: the next process at an address may start before the former has ended.
func TestLeaseSuperseded(t *testing.T) {
	t.Parallel()
	check.Bubble(t, func(t *testing.T) {
		store := newMemory()
		a, b := replica(t, store), replica(t, store)
		old := register(t, a, weather("10.0.0.7:1"))
		register(t, b, weather("10.0.0.7:1"))
		if _, err := a.Register(t.Context(), old); reason(t, err) != "LEASE_SUPERSEDED" {
			t.Error(err)
		}
		if err := a.Withdraw(t.Context(), old.Key(), old.Lease); reason(t, err) != "LEASE_SUPERSEDED" {
			t.Error(err)
		}
		a.sees(t, seven)
		b.sees(t, seven)
	})
}

// A silent store ends no lease, and after a loss of its data holders have time to renew.
func TestLeasesOutliveTheStore(t *testing.T) {
	t.Parallel()
	check.Bubble(t, func(t *testing.T) {
		store := newMemory()
		a, b := replica(t, store), replica(t, store)
		first := register(t, a, weather("10.0.0.7:1"))
		register(t, a, weather("10.0.0.8:1"))
		b.sees(t, seven, eight)
		store.hush(true)
		<-time.After(time.Hour)
		a.sees(t, seven, eight)
		b.sees(t, seven, eight)
		if _, err := a.Register(t.Context(), first); reason(t, err) != "REGISTRY_UNAVAILABLE" {
			t.Error(err)
		}
		if err := a.Withdraw(t.Context(), first.Key(), first.Lease); reason(t, err) != "REGISTRY_UNAVAILABLE" {
			t.Error(err)
		}
		if s := a.Stats(); s.Stale < time.Hour || s.StoreFailed == 0 || s.Registered != 2 {
			t.Errorf("%+v", s)
		}
		store.lose()
		store.hush(false)
		<-time.After(20 * time.Second)
		a.sees(t, seven, eight)
		store.hush(true) // earlier missed renewals do not count
		<-time.After(20 * time.Second)
		store.hush(false)
		<-time.After(20 * time.Second)
		b.sees(t, seven, eight)
		register(t, b, first)
		<-time.After(15 * time.Second)
		a.sees(t, seven)
		b.sees(t, seven)
		if s := a.Stats(); s.Stale != 0 {
			t.Errorf("%+v", s)
		}
	})
}

// The store is trusted no more than a client.
func TestLeasesOfOthersAreLookedAt(t *testing.T) {
	t.Parallel()
	check.Bubble(t, func(t *testing.T) {
		store := newMemory()
		w := replica(t, store)
		good := weather("10.0.0.7:1")
		good.Pinned = []netip.AddrPort{netip.MustParseAddrPort("10.0.0.7:1")}
		store.put(good)
		host := weather("weather.test:1")
		host.Pinned = []netip.AddrPort{netip.MustParseAddrPort("10.0.0.9:1")}
		store.put(host)
		for name, change := range map[string]func(*registry.Registration){
			"loopback": func(g *registry.Registration) {
				g.Addr, g.Pinned[0] = "127.0.0.1:1", netip.MustParseAddrPort("127.0.0.1:1")
			},
			"mapped": func(g *registry.Registration) {
				g.Addr, g.Pinned[0] = "a.test:1", netip.MustParseAddrPort("[::ffff:127.0.0.1]:1")
			},
			"rebound": func(g *registry.Registration) {
				g.Addr, g.Pinned[0] = "b.test:1", netip.MustParseAddrPort("169.254.169.254:1")
			},
			"other address": func(g *registry.Registration) {
				g.Addr, g.Pinned[0] = "10.0.0.3:1", netip.MustParseAddrPort("10.0.0.7:1")
			},
			"other port": func(g *registry.Registration) {
				g.Addr, g.Pinned[0] = "c.test:1", netip.MustParseAddrPort("10.0.0.7:2")
			},
			"not pinned":    func(g *registry.Registration) { g.Addr, g.Pinned = "10.0.0.4:1", nil },
			"no address":    func(g *registry.Registration) { g.Addr = "x" },
			"no capability": func(g *registry.Registration) { g.Capability = "A" },
			"negative":      func(g *registry.Registration) { g.Addr, g.Weight = "d.test:1", -1 },
			"for ever":      func(g *registry.Registration) { g.Addr, g.TTL = "e.test:1", 1000*time.Hour },
		} {
			g := good
			g.Pinned = []netip.AddrPort{good.Pinned[0]}
			change(&g)
			if g.Key() == good.Key() {
				t.Errorf("%s is the good one", name)
			}
			store.put(g)
		}
		w.sees(t, seven, "weather 10.0.0.9:1 100 weather.test registration")
		if n := w.Stats().Ignored; n != 10 {
			t.Errorf("%d values ignored, want 10", n)
		}

		// Changed rules apply to existing registrations.
		strict := rules()
		strict.Fleets = map[string]bool{}
		w.Set(registry.Settings{Rules: strict})
		w.sees(t)
		w.Set(registry.Settings{Rules: rules("127.0.0.0/8")})
		w.sees(t, seven, "weather 10.0.0.9:1 100 weather.test registration",
			"weather 127.0.0.1:1 100 127.0.0.1 registration")
		w.Set(registry.Settings{Rules: rules()})
		w.sees(t, seven, "weather 10.0.0.9:1 100 weather.test registration")
	})
}

// delayed is a store that holds back its response to one read until it is released.
type delayed struct {
	*memory
	next        atomic.Bool // the next answer is delayed
	read, letGo chan struct{}
}

func (d *delayed) Read(ctx context.Context, since string) (registry.Reading, error) {
	got, err := d.memory.Read(ctx, since)
	if d.next.Swap(false) {
		d.read <- struct{}{}
		<-d.letGo
	}
	return got, err
}

// TestChangesDuringARead: what a replica has written since a read of the store began is not undone by the answer.
func TestChangesDuringARead(t *testing.T) {
	t.Parallel()
	check.Bubble(t, func(t *testing.T) {
		store := &delayed{memory: newMemory(), read: make(chan struct{}), letGo: make(chan struct{})}
		w := replica(t, store)
		changed, withdrawn, ended := register(t, w, weather("10.0.0.7:1")), register(t, w, weather("10.0.0.8:1")),
			register(t, w, weather("10.0.0.9:1"))
		withdraw := func(g registry.Registration) {
			t.Helper()
			check.Must(t, w.Withdraw(t.Context(), g.Key(), ""))
		}
		withdraw(ended)
		w.sees(t, seven, eight)
		store.next.Store(true)
		register(t, w, weather("10.0.0.6:1"))
		<-store.read
		changed.Weight = 5
		register(t, w, changed)
		withdraw(withdrawn)
		register(t, w, weather("10.0.0.9:1"))
		close(store.letGo)
		<-time.After(20 * time.Millisecond) // of the bubble's clock: before the next read
		synctest.Wait()
		want := []string{"weather 10.0.0.6:1 100 10.0.0.6 registration", "weather 10.0.0.7:1 5 10.0.0.7 registration",
			"weather 10.0.0.9:1 100 10.0.0.9 registration"}
		if got := describe(w.Members()); !slices.Equal(got, want) {
			t.Errorf("%q, want %q", got, want)
		}
	})
}
