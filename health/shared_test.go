package health_test

import (
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/capgate/capgate/health"
	"github.com/capgate/capgate/health/storetest"
	"github.com/capgate/capgate/internal/testkit/check"
)

// bubble runs a test of a cluster in a synctest bubble.
func bubble(t *testing.T, replicas, backends int, test func(t *testing.T, c *cluster)) {
	t.Helper()
	check.Bubble(t, func(t *testing.T) {
		c := newCluster(t, replicas, backends)
		defer c.close()
		pass(15 * time.Second) // all replicas are live, and all backends were probed
		c.allUp("at first")
		test(t, c)
	})
}

// With any number of replicas, a backend is probed once in an interval, and all replicas agree
// on its owner.
func TestProbesDoNotGrowWithReplicas(t *testing.T) {
	t.Parallel()
	for _, replicas := range []int{1, 2, 7} {
		bubble(t, replicas, 40, func(t *testing.T, c *cluster) { // each replica probes some
			before := map[string]int64{}
			for addr, b := range c.served {
				before[addr] = b.asked.Load()
			}
			pass(100 * time.Second)
			turns := map[string]bool{}
			for addr, b := range c.served {
				if n := b.asked.Load() - before[addr]; n < 9 || n > 12 {
					t.Errorf("%d replicas probed %s %d times in 100 s at one every 9 to 11 s", replicas, addr, n)
				}
				by := c.members[0].backend(addr).By
				turns[by] = true
				for _, m := range c.members {
					if got := m.backend(addr).By; got != by || by == "" {
						t.Errorf("%s: %s says %q probes, r0 says %q", addr, m.id, got, by)
					}
				}
			}
			if len(turns) < min(replicas, 3) {
				t.Errorf("of %d replicas, %d probe", replicas, len(turns))
			}
			for _, m := range c.members {
				if s := m.prober.Stats(); s.Replicas != replicas || s.Agree != replicas || s.Unpublished != 0 {
					t.Errorf("%s: %+v", m.id, s)
				}
			}
		})
	}
}

// The failure of a backend is detected within two intervals, and all replicas agree.
func TestAllAgreeOnATransition(t *testing.T) {
	t.Parallel()
	bubble(t, 3, 5, func(t *testing.T, c *cluster) {
		died := time.Now()
		c.stop["b2:1"]()
		pass(2 * slow.Interval)
		c.everyReplica("b2:1", health.Down)
		var earliest, latest time.Time
		for _, m := range c.members {
			at, ok := m.first("b2:1", health.Down, died)
			if !ok {
				continue
			}
			if earliest.IsZero() || at.Before(earliest) {
				earliest = at
			}
			if at.After(latest) {
				latest = at
			}
			if b := m.backend("b2:1"); !b.Refused || time.Since(m.real(b.Since)).Abs() > 25*time.Second {
				t.Errorf("%s: %+v", m.id, b)
			}
		}
		if latest.Sub(earliest) > time.Second {
			t.Errorf("it took %v from the first to the last", latest.Sub(earliest))
		}
		c.served["b2:1"] = newBackend(answer{ready: true})
		c.raise("b2:1", live(c.served["b2:1"]))
		pass(23 * time.Second) // two successful probes
		c.allUp("after it came back")
	})
}

// A backend that hangs is Down, but not Refused.
func TestAllAgreeOnOneThatHangs(t *testing.T) {
	t.Parallel()
	bubble(t, 3, 3, func(t *testing.T, c *cluster) {
		c.served["b1:1"].answer.Store(&answer{hang: true})
		pass(2 * slow.Interval)
		c.everyReplica("b1:1", health.Down)
		for _, m := range c.members {
			if b := m.backend("b1:1"); b.Refused || b.Reason != "no answer in time" {
				t.Errorf("%s: %+v", m.id, b)
			}
		}
	})
}

// When a replica dies, its peers take over its probes within two heartbeats.
func TestTakeover(t *testing.T) {
	t.Parallel()
	bubble(t, 4, 12, func(t *testing.T, c *cluster) {
		dead := c.members[1]
		start := time.Now()
		dead.die()
		pass(2 * heartbeat)
		for _, addr := range c.backends {
			for _, m := range c.members {
				if m != dead && m.backend(addr).By == dead.id {
					t.Errorf("%s still says that %s probes %s", m.id, dead.id, addr)
				}
			}
		}
		c.stop["b3:1"]()
		pass(2 * slow.Interval)
		c.everyReplica("b3:1", health.Down)
		for _, m := range c.members {
			for _, addr := range c.backends {
				if at, down := m.first(addr, health.Down, start); down && addr != "b3:1" && m != dead {
					t.Errorf("%s said after %v that %s is down", m.id, at.Sub(start), addr)
				}
			}
		}
	})
}

// A replica that stops hands over its probes at once.
func TestLeave(t *testing.T) {
	t.Parallel()
	bubble(t, 3, 12, func(t *testing.T, c *cluster) {
		leaves := c.members[2]
		leaves.quit()
		leaves.quit = func() {}
		synctest.Wait()
		for _, m := range c.members[:2] {
			for _, addr := range c.backends {
				if m.backend(addr).By == leaves.id {
					t.Errorf("%s still says that %s probes %s", m.id, leaves.id, addr)
				}
			}
		}
	})
}

// A replica that cannot reach the backends evicts none of them for its peers.
func TestBlackHoledReplica(t *testing.T) {
	t.Parallel()
	bubble(t, 3, 12, func(t *testing.T, c *cluster) {
		start := time.Now()
		c.members[0].blackHole()
		pass(2 * time.Minute)
		c.neverDown("one replica reaches no backend", start)
		c.allUp("one replica reaches no backend") // also there: another replica reaches them
		if first, second := c.store.Observations("c", c.ownedBy("r0")); first.State != health.Down || second == nil ||
			second.State != health.Up {
			t.Errorf("in the store: %+v, %+v", first, second)
		}
		// The failure of another backend is still detected.
		victim := c.ownedBy("r1")
		c.stop[victim]()
		pass(3 * slow.Interval)
		if second := c.members[2].backend(victim); second.State == health.Up {
			t.Errorf("%+v", second)
		}
		// The connection is restored.
		c.members[0].cut.Store(false)
		pass(25 * time.Second)
		for _, m := range c.members {
			for _, addr := range c.backends {
				if b := m.backend(addr); addr != victim && b.State != health.Up {
					t.Errorf("%s: %+v", m.id, b)
				}
			}
		}
	})
}

// No fault of the store makes a replica see a backend as Down that is not.
func TestStoreFaults(t *testing.T) {
	t.Parallel()
	for name, fault := range map[string]storetest.Fault{
		"silent":  {Silent: true},
		"slow":    {Delay: 2 * time.Second},
		"refuses": {Err: errors.New("OOM command not allowed")},
	} {
		bubble(t, 3, 6, func(t *testing.T, c *cluster) {
			start := time.Now()
			c.store.Break(fault)
			pass(25 * time.Second)
			c.allUp(name + " for a while")
			pass(2 * time.Minute)
			c.neverDown(name, start)
			for _, m := range c.members {
				if looked := m.real(m.prober.Stats().LastContact); fault.Delay == 0 &&
					time.Since(looked) < 2*time.Minute {
					t.Errorf("%s: %s was in contact with the store %v ago", name, m.id, time.Since(looked))
				}
			}
			c.store.Break(storetest.Fault{})
			pass(20 * time.Second)
			c.allUp(name + ", after recovery")
			c.stop["b0:1"]()
			pass(2 * slow.Interval)
			c.everyReplica("b0:1", health.Down)
		})
	}
}

// TestStoreRestartsEmpty: the owners of observations write them again to a store that has restarted empty.
func TestStoreRestartsEmpty(t *testing.T) {
	t.Parallel()
	bubble(t, 3, 6, func(t *testing.T, c *cluster) {
		c.stop["b4:1"]()
		pass(2 * slow.Interval)
		c.everyReplica("b4:1", health.Down)
		start := time.Now()
		c.store.Wipe()
		pass(5 * time.Second)
		for _, addr := range c.backends {
			if first, _ := c.store.Observations("c", addr); first == nil {
				t.Errorf("no observation of %s was published", addr)
			}
		}
		c.everyReplica("b4:1", health.Down)
		for _, m := range c.members {
			if _, told := m.first("b4:1", health.Up, start); told {
				t.Errorf("%s saw it as up meanwhile", m.id)
			}
		}
		// A replica that starts now knows all states without a probe.
		late := c.join("late")
		pass(time.Second)
		if got := late.states(); got != c.members[0].states() {
			t.Errorf("one that starts later: %s", got)
		}
	})
}

// While the store is unavailable a replica probes the backends that it owned or that have traffic.
// Other backends become Unknown when their observations are stale.
func TestIsolated(t *testing.T) {
	t.Parallel()
	bubble(t, 3, 12, func(t *testing.T, c *cluster) {
		used := c.ownedBy("r1")
		c.members[0].used.Store(&used)
		c.store.Break(storetest.Fault{Err: errors.New("connection refused")})
		pass(time.Minute)
		asked := map[string]int64{}
		for _, addr := range c.backends {
			asked[addr] = c.served[addr].asked.Load()
		}
		for _, m := range c.members {
			for _, addr := range c.backends {
				want := health.Unknown
				if c.owner[addr] == m.id || addr == used && m.id == "r0" {
					want = health.Up
				}
				if b := m.backend(addr); b.State != want {
					t.Errorf("%s: %+v, want %v", m.id, b, want)
				}
			}
			if s := m.prober.Stats(); s.Replicas != 0 {
				t.Errorf("%s: %+v", m.id, s)
			}
		}
		pass(100 * time.Second)
		for _, addr := range c.backends {
			most := int64(12)
			if addr == used {
				most *= 2
			}
			if n := c.served[addr].asked.Load() - asked[addr]; n < 9 || n > most {
				t.Errorf("%s was probed %d times in 100 s", addr, n)
			}
		}
	})
}

// Without a store at the start, a replica probes all backends itself.
func TestIsolatedFromTheStart(t *testing.T) {
	t.Parallel()
	for name, fault := range map[string]storetest.Fault{
		"silent": {Silent: true}, "refuses": {Err: errors.New("connection refused")},
	} {
		check.Bubble(t, func(t *testing.T) {
			c := newCluster(t, 0, 4)
			defer c.close()
			c.store.Break(fault)
			c.join("r0")
			c.join("r1")
			pass(1500 * time.Millisecond)
			c.allUp(name)
			c.stop["b0:1"]()
			pass(3 * slow.Interval) // seldom probed, as it has no traffic
			c.everyReplica("b0:1", health.Down)
			c.store.Break(storetest.Fault{})
			pass(45 * time.Second) // three reconciliations, if no event arrives
			c.everyReplica("b0:1", health.Down)
			for _, m := range c.members {
				if since := m.real(m.backend("b0:1").Since); time.Since(since) > 80*time.Second ||
					time.Since(since) < 0 {
					t.Errorf("%s: %s says b0:1 is down for %v", name, m.id, time.Since(since))
				}
			}
			if a, b := c.members[0].states(), c.members[1].states(); a != b || a != "down up up up" {
				t.Errorf("%s, after recovery: %s; %s", name, a, b)
			}
		})
	}
}

// The owner of a backend deletes it from the store when it leaves the configuration.
func TestDeletedFromTheStore(t *testing.T) {
	t.Parallel()
	bubble(t, 2, 6, func(t *testing.T, c *cluster) {
		for _, m := range c.members {
			m.prober.Set([]health.Fleet{{Capability: "c", Backends: c.backends[1:], Config: slow}})
		}
		pass(time.Second)
		if first, second := c.store.Observations("c", "b0:1"); first != nil || second != nil {
			t.Errorf("%+v, %+v", first, second)
		}
		if first, _ := c.store.Observations("c", "b1:1"); first == nil {
			t.Error("one that stays is not in the store")
		}
		c.backends = c.backends[1:]
		c.allUp("without it")
		for _, m := range c.members {
			m.prober.Set([]health.Fleet{{Capability: "c", Backends: append(c.backends[:5:5], "b0:1"), Config: slow}})
		}
		pass(2 * time.Second)
		c.everyReplica("b0:1", health.Up)
	})
}

// A replica that reads its configuration late deletes a backend that the others have again.
func TestDeletedTooLate(t *testing.T) {
	t.Parallel()
	bubble(t, 3, 3, func(t *testing.T, c *cluster) {
		late := health.Report{Key: health.Key{Capability: "c", Addr: "b1:1"}}
		_, err := c.store.Publish(t.Context(), []health.Report{late})
		check.Must(t, err)
		pass(time.Second)
		if first, _ := c.store.Observations("c", "b1:1"); first == nil || first.State != health.Up {
			t.Errorf("its owner has not published it again: %+v", first)
		}
		c.allUp("after it")
	})
}

// After the store lost its content, no replica reads it in full again: all receive the events.
func TestEmptyStoreIsNotReadByAll(t *testing.T) {
	t.Parallel()
	bubble(t, 5, 40, func(t *testing.T, c *cluster) {
		before := c.store.EntriesRead()
		c.store.Wipe()
		pass(15 * time.Second)
		// a replica that subscribes late may miss an event
		if n := c.store.EntriesRead() - before; n > 2*len(c.backends) {
			t.Errorf("5 replicas read %d entries of a store with %d", n, len(c.backends))
		}
		for _, m := range c.members {
			if s := m.prober.Stats(); s.Replicas != 5 || s.Agree != 5 || s.Unpublished != 0 {
				t.Errorf("%s: %+v", m.id, s)
			}
		}
		c.allUp("after it")
	})
}
