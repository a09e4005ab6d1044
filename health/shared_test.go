package health_test

import (
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/capgate/capgate/health"
	"github.com/capgate/capgate/health/boardtest"
)

// bubble runs a test of a crowd, replicas of which the members are in a bubble.
func bubble(t *testing.T, replicas, backends int, test func(t *testing.T, c *crowd)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		c := newCrowd(t, replicas, backends)
		defer c.close()
		pass(15 * time.Second) // they have met, and everything was asked
		c.allUp("at first")
		test(t, c)
	})
}

// However many replicas there are, a backend is asked once in an interval, and all
// know whose turn it is.
func TestProbesDoNotGrowWithReplicas(t *testing.T) {
	t.Parallel()
	for _, replicas := range []int{1, 2, 7} {
		bubble(t, replicas, 9, func(t *testing.T, c *crowd) {
			before := map[string]int64{}
			for addr, b := range c.served {
				before[addr] = b.asked.Load()
			}
			pass(100 * time.Second)
			turns := map[string]bool{}
			for addr, b := range c.served {
				if n := b.asked.Load() - before[addr]; n < 9 || n > 12 {
					t.Errorf("%d replicas asked %s %d times in 100 s at one every 9 to 11 s", replicas, addr, n)
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
				if s := m.prober.Stats(); s.Replicas != replicas || s.Agree != replicas || s.Unposted != 0 {
					t.Errorf("%s: %+v", m.id, s)
				}
			}
		})
	}
}

// A backend that dies is found out within two intervals, and all agree.
func TestAllAgreeOnATransition(t *testing.T) {
	t.Parallel()
	bubble(t, 3, 5, func(t *testing.T, c *crowd) {
		died := time.Now()
		c.stop["b2:1"]()
		pass(2 * slow.Interval)
		c.everybody("b2:1", health.Down)
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
		pass(23 * time.Second) // two good probes
		c.allUp("after it came back")
	})
}

// Of a backend that hangs, nobody says for sure that nobody is there.
func TestAllAgreeOnOneThatHangs(t *testing.T) {
	t.Parallel()
	bubble(t, 3, 3, func(t *testing.T, c *crowd) {
		c.served["b1:1"].answer.Store(&answer{hang: true})
		pass(2 * slow.Interval)
		c.everybody("b1:1", health.Down)
		for _, m := range c.members {
			if b := m.backend("b1:1"); b.Refused || b.Reason != "no answer in time" {
				t.Errorf("%s: %+v", m.id, b)
			}
		}
	})
}

// When a replica dies, others probe in its place within two heartbeats.
func TestTakeover(t *testing.T) {
	t.Parallel()
	bubble(t, 4, 12, func(t *testing.T, c *crowd) {
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
		c.everybody("b3:1", health.Down)
		for _, m := range c.members {
			for _, addr := range c.backends {
				if at, down := m.first(addr, health.Down, start); down && addr != "b3:1" && m != dead {
					t.Errorf("%s said after %v that %s is down", m.id, at.Sub(start), addr)
				}
			}
		}
	})
}

// A replica that stops hands over at once.
func TestLeave(t *testing.T) {
	t.Parallel()
	bubble(t, 3, 12, func(t *testing.T, c *crowd) {
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

// A replica that cannot reach the backends takes none away from the others.
func TestBlackHoledReplica(t *testing.T) {
	t.Parallel()
	bubble(t, 3, 12, func(t *testing.T, c *crowd) {
		start := time.Now()
		c.members[0].blackHole()
		pass(2 * time.Minute)
		c.neverDown("one replica reaches nobody", start)
		c.allUp("one replica reaches nobody") // it too: another has seen them
		if first, second := c.board.Votes("c", c.turnOf("r0")); first.State != health.Down || second == nil || second.State != health.Up {
			t.Errorf("on the board: %+v, %+v", first, second)
		}
		// What is really dead is found out as ever.
		victim := c.turnOf("r1")
		c.stop[victim]()
		pass(3 * slow.Interval)
		if second := c.members[2].backend(victim); second.State == health.Up {
			t.Errorf("%+v", second)
		}
		// It comes back.
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

// Whatever happens to the board, nobody takes a backend for down that is not.
func TestBoardFaults(t *testing.T) {
	t.Parallel()
	for name, fault := range map[string]boardtest.Fault{
		"silent":  {Silent: true},
		"slow":    {Delay: 2 * time.Second},
		"refuses": {Err: errors.New("OOM command not allowed")},
	} {
		bubble(t, 3, 6, func(t *testing.T, c *crowd) {
			start := time.Now()
			c.board.Break(fault)
			pass(25 * time.Second)
			c.allUp(name + " for a while")
			pass(2 * time.Minute)
			c.neverDown(name, start)
			for _, m := range c.members {
				if looked := m.real(m.prober.Stats().Looked); fault.Delay == 0 && time.Since(looked) < 2*time.Minute {
					t.Errorf("%s: %s saw the board %v ago", name, m.id, time.Since(looked))
				}
			}
			c.board.Break(boardtest.Fault{})
			pass(20 * time.Second)
			c.allUp(name + ", then well again")
			c.stop["b0:1"]()
			pass(2 * slow.Interval)
			c.everybody("b0:1", health.Down)
		})
	}
}

// A board that comes back empty is written again by those who know.
func TestBoardRestartsEmpty(t *testing.T) {
	t.Parallel()
	bubble(t, 3, 6, func(t *testing.T, c *crowd) {
		c.stop["b4:1"]()
		pass(2 * slow.Interval)
		c.everybody("b4:1", health.Down)
		start := time.Now()
		c.board.Wipe()
		pass(5 * time.Second)
		for _, addr := range c.backends {
			if first, _ := c.board.Votes("c", addr); first == nil {
				t.Errorf("nobody wrote what is known of %s", addr)
			}
		}
		c.everybody("b4:1", health.Down)
		for _, m := range c.members {
			if _, told := m.first("b4:1", health.Up, start); told {
				t.Errorf("%s took it for up meanwhile", m.id)
			}
		}
		// One that starts now knows all without asking.
		late := c.join("late")
		pass(time.Second)
		if got := late.states(); got != c.members[0].states() {
			t.Errorf("one that starts later: %s", got)
		}
	})
}

// While the board is away a replica probes what it uses, and what it probed before.
// The rest is not known for longer than it is fresh.
func TestAlone(t *testing.T) {
	t.Parallel()
	bubble(t, 3, 12, func(t *testing.T, c *crowd) {
		used := c.turnOf("r1")
		c.members[0].used.Store(&used)
		c.board.Break(boardtest.Fault{Err: errors.New("connection refused")})
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
				t.Errorf("%s was asked %d times in 100 s", addr, n)
			}
		}
	})
}

// Without a board at the start, a replica finds out everything itself.
func TestAloneFromTheStart(t *testing.T) {
	t.Parallel()
	for name, fault := range map[string]boardtest.Fault{"silent": {Silent: true}, "refuses": {Err: errors.New("connection refused")}} {
		synctest.Test(t, func(t *testing.T) {
			c := newCrowd(t, 0, 4)
			defer c.close()
			c.board.Break(fault)
			c.join("r0")
			c.join("r1")
			pass(1500 * time.Millisecond)
			c.allUp(name)
			c.stop["b0:1"]()
			pass(3 * slow.Interval) // seldom asked, as nobody uses it
			c.everybody("b0:1", health.Down)
			c.board.Break(boardtest.Fault{})
			pass(45 * time.Second) // three reconciliations, if nothing is heard
			c.everybody("b0:1", health.Down)
			for _, m := range c.members {
				if since := m.real(m.backend("b0:1").Since); time.Since(since) > 80*time.Second || time.Since(since) < 0 {
					t.Errorf("%s: %s says b0:1 is down for %v", name, m.id, time.Since(since))
				}
			}
			if a, b := c.members[0].states(), c.members[1].states(); a != b || a != "down up up up" {
				t.Errorf("%s, then well: %s; %s", name, a, b)
			}
		})
	}
}

// Who probed a backend takes it off the board when it leaves the configuration.
func TestGoneFromTheBoard(t *testing.T) {
	t.Parallel()
	bubble(t, 2, 6, func(t *testing.T, c *crowd) {
		for _, m := range c.members {
			m.prober.Set([]health.Fleet{{Capability: "c", Backends: c.backends[1:], Config: slow}})
		}
		pass(time.Second)
		if first, second := c.board.Votes("c", "b0:1"); first != nil || second != nil {
			t.Errorf("%+v, %+v", first, second)
		}
		if first, _ := c.board.Votes("c", "b1:1"); first == nil {
			t.Error("one that stays is not on the board")
		}
		c.backends = c.backends[1:]
		c.allUp("without it")
		for _, m := range c.members {
			m.prober.Set([]health.Fleet{{Capability: "c", Backends: append(c.backends[:5:5], "b0:1"), Config: slow}})
		}
		pass(2 * time.Second)
		c.everybody("b0:1", health.Up)
	})
}

// After a board lost everything, nobody reads it whole again: all hear what is written.
func TestEmptyBoardIsNotReadByAll(t *testing.T) {
	t.Parallel()
	bubble(t, 5, 40, func(t *testing.T, c *crowd) {
		before := c.board.EntriesRead()
		c.board.Wipe()
		pass(15 * time.Second)
		if n := c.board.EntriesRead() - before; n > 2*len(c.backends) { // who came back late may have missed something
			t.Errorf("5 replicas read %d entries of a board with %d", n, len(c.backends))
		}
		for _, m := range c.members {
			if s := m.prober.Stats(); s.Replicas != 5 || s.Agree != 5 || s.Unposted != 0 {
				t.Errorf("%s: %+v", m.id, s)
			}
		}
		c.allUp("after it")
	})
}

// Only transitions are written: nothing while nothing changes, and of a backend that
// dies, one vote and the second opinion.
func TestOnlyTransitionsAreWritten(t *testing.T) {
	t.Parallel()
	bubble(t, 3, 9, func(t *testing.T, c *crowd) {
		posts, reports := c.board.Reports()
		pass(30 * time.Minute)
		if now, _ := c.board.Reports(); now != posts {
			t.Errorf("%d posts in half an hour in which nothing happened", now-posts)
		}
		c.stop["b4:1"]()
		pass(10 * time.Minute)
		c.everybody("b4:1", health.Down)
		if _, now := c.board.Reports(); now-reports < 2 || now-reports > 3 {
			t.Errorf("%d votes were written of one that died", now-reports)
		}
	})
}
