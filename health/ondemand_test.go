package health_test

import (
	"context"
	"fmt"
	"net"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/capgate/capgate/health"
	"github.com/capgate/capgate/health/storetest"
	"github.com/capgate/capgate/internal/testkit/check"
)

// dials are the times of dials to a network.
type dials struct {
	*network
	mu   sync.Mutex
	at   []time.Time
	fail error // of every dial, instead of the network's answer
	hang bool  // dials do not end
}

func (d *dials) dial(ctx context.Context, addr string) (net.Conn, error) {
	d.mu.Lock()
	d.at = append(d.at, time.Now())
	fail, hang := d.fail, d.hang
	d.mu.Unlock()
	if hang {
		<-ctx.Done()
		return nil, ctx.Err()
	}
	if fail != nil {
		return nil, fail
	}
	return d.network.dial(ctx, addr)
}

// take returns the times since the last take.
func (d *dials) take() []time.Time {
	d.mu.Lock()
	defer d.mu.Unlock()
	at := d.at
	d.at = nil
	return at
}

// start runs a prober in a bubble until stop.
func (d *dials) start(config health.Config, backends ...string) (p *health.Prober, stop func()) {
	p = health.New([]health.Fleet{{Capability: "c", Backends: backends, Config: config}}, health.Options{Dial: d.dial})
	return p, d.keep(p)
}

// A backend that refuses connections is probed again after 100 ms, 200 ms and so on, up to the interval. Its first good
// probe suffices while no other backend is up.
func TestBackoff(t *testing.T) {
	t.Parallel()
	for name, fail := range map[string]error{
		"the port is closed":           nil,
		"the host name does not exist": &net.DNSError{Err: "no such host", IsNotFound: true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			check.Bubble(t, func(t *testing.T) {
				d := &dials{network: newNetwork(t), fail: fail}
				p, stop := d.start(slow, "b:1")
				defer stop()
				pass(time.Minute)
				at := d.take()
				want := 100 * time.Millisecond
				for i := 1; i < len(at); i++ {
					if got := at[i].Sub(at[i-1]); got < want*9/10 || got > want*11/10 {
						t.Errorf("wait %d: %v, want about %v", i, got, want)
					}
					want = min(2*want, slow.Interval)
				}
				if len(at) < 11 || !p.Snapshot("c").Backends[0].Absent() {
					t.Errorf("%d dials in a minute; %+v", len(at), p.Snapshot("c").Backends[0])
				}
				d.mu.Lock()
				d.fail = nil
				d.mu.Unlock()
				d.raise("b:1", live(newBackend(answer{ready: true})))
				pass(11 * time.Second)
				if b := p.Snapshot("c").Backends[0]; b.State != health.Up {
					t.Errorf("after one good probe: %+v", b)
				}
			})
		})
	}
}

// TestLogOfRecovery: the log distinguishes a recovering backend from a failing one, and a successful probe is never the
// reason of "backend down".
func TestLogOfRecovery(t *testing.T) {
	t.Parallel()
	check.Bubble(t, func(t *testing.T) {
		w := newNetwork(t)
		w.raise("a:1", live(newBackend(answer{ready: true})))
		slowly := newBackend(answer{message: "loading"})
		w.raise("b:1", live(slowly))
		p, stop := w.run(health.Fleet{Capability: "c", Backends: []string{"a:1", "b:1", "gone:1"}, Config: slow}, 0)
		pass(time.Second)
		slowly.answer.Store(&answer{ready: true, message: "fine"})
		seen := make(chan struct{}, 100)
		slowly.seen = func() { seen <- struct{}{} }
		w.raise("gone:1", live(newBackend(answer{ready: true, message: "fine"})))
		<-seen
		synctest.Wait()
		down := p.Snapshot("c").Backends[1]
		pass(40 * time.Second)
		stop()
		if !down.Recovering() || down.Reason != "recovering: 1 of 2 good probes" {
			t.Errorf("after one good probe: %+v", down)
		}
		log := w.log.String()
		for _, addr := range []string{"b:1", "gone:1"} {
			for _, line := range []string{
				`msg="backend recovering" capability=c backend=` + addr +
					` dialect=live reason="recovering: 1 of 2 good probes"`,
				`msg="backend up" capability=c backend=` + addr + ` dialect=live reason=fine`,
			} {
				if strings.Count(log, line) != 1 {
					t.Errorf("%d lines %s", strings.Count(log, line), line)
				}
			}
		}
		if strings.Count(log, "backend down") != 2 || t.Failed() {
			t.Errorf("the log is\n%s", log)
		}
	})
}

// However many calls wait, a dead backend gets a few probes a second, and a call sees several of them.
func TestExpedite(t *testing.T) {
	t.Parallel()
	check.Bubble(t, func(t *testing.T) {
		d := &dials{network: newNetwork(t)}
		p, stop := d.start(slow, "b:1")
		defer stop()
		pass(10 * time.Minute) // the backoff has grown
		for d.take(); d.take() == nil; {
			pass(100 * time.Millisecond)
		}
		pass(time.Second) // between two probes
		began := time.Now()
		for range 1000 {
			p.Expedite("c")
			p.Expedite("unknown")
			pass(5 * time.Millisecond)
		}
		at := d.take()
		if len(at) < 8 || len(at) > 14 || at[0].Sub(began) > 0 {
			t.Errorf("%d probes in 5 s of calls, the first after %v", len(at), at[0].Sub(began))
		}
		d.raise("b:1", live(newBackend(answer{ready: true})))
		pass(600 * time.Millisecond) // the last calls still wait
		if b := p.Snapshot("c").Backends[0]; b.State != health.Up {
			t.Errorf("while calls wait: %+v", b)
		}
		pass(time.Minute)
		if at := d.take(); len(at) > 1 {
			t.Errorf("%d connections to a backend that is up", len(at))
		}
	})
}

// Calls that wait for many fleets cause a bounded number of probes.
func TestExpediteManyFleets(t *testing.T) {
	t.Parallel()
	check.Bubble(t, func(t *testing.T) {
		d := &dials{network: newNetwork(t)}
		fleets := make([]health.Fleet, 80)
		for i := range fleets {
			fleets[i] = health.Fleet{Capability: fmt.Sprint("c", i), Config: slow}
			for j := range 8 {
				fleets[i].Backends = append(fleets[i].Backends, fmt.Sprintf("b%d-%d:1", i, j))
			}
		}
		p := health.New(fleets, health.Options{Dial: d.dial})
		defer d.keep(p)()
		pass(15 * time.Second) // each was probed a few times
		d.take()
		for i := range fleets {
			p.Expedite(fleets[i].Capability)
		}
		pass(10 * time.Millisecond)
		if n := len(d.take()); n < 400 || n > 600 {
			t.Errorf("%d probes of 640 backends at once, at 500 a second", n)
		}
	})
}

// A backend that refused connections and has since become unresponsive is not known to be closed.
func TestHangAfterRefusal(t *testing.T) {
	t.Parallel()
	check.Bubble(t, func(t *testing.T) {
		d := &dials{network: newNetwork(t)}
		p, stop := d.start(slow, "b:1")
		defer stop()
		pass(time.Minute)
		if b := p.Snapshot("c").Backends[0]; !b.Refused {
			t.Errorf("%+v", b)
		}
		d.mu.Lock()
		d.hang = true
		d.mu.Unlock()
		for d.take(); d.take() == nil; {
			pass(100 * time.Millisecond)
		}
		pass(slow.Timeout + 100*time.Millisecond) // the end of that probe
		if b := p.Snapshot("c").Backends[0]; b.State != health.Down || b.Refused {
			t.Errorf("%+v", b)
		}
	})
}

// Of thousands of backends that do not run 200 are probed early, and of these 20 again and again, as 200 probes a
// second allow.
func TestManyAbsent(t *testing.T) {
	t.Parallel()
	check.Bubble(t, func(t *testing.T) {
		d := &dials{network: newNetwork(t)}
		var addrs []string
		for i := range 3000 {
			addrs = append(addrs, fmt.Sprintf("b%d:1", i))
		}
		_, stop := d.start(slow, addrs...)
		defer stop()
		pass(8900 * time.Millisecond) // before the second probe after an interval
		// 200 after 100 ms, for which time 20 are allowed more; these are due after 0.3, 0.7, 1.5, 3.1 and 6.3 s.
		if n := len(d.take()) - len(addrs); n < 200+5*20 || n > 200+5*22 {
			t.Errorf("%d early probes in 9 s, want 200 and 5 times 20 or a few more, by jitter", n)
		}
	})
}

// deaf makes the replicas that probe the only backend find it dead, and returns another one.
func (c *cluster) deaf() (outsider *member) {
	c.t.Helper()
	addr := c.backends[0]
	c.stop[addr]()
	pass(3 * slow.Interval)
	c.everyReplica(addr, health.Down)
	for _, m := range c.members {
		if m.prober.Stats().Probing == 0 {
			outsider = m
			continue
		}
		m.blackHole()
	}
	if outsider == nil {
		c.t.Fatal("every replica probes")
	}
	pass(2 * slow.Interval)
	c.served[addr] = newBackend(answer{ready: true})
	c.raise(addr, live(c.served[addr]))
	return outsider
}

// A replica for which calls wait probes the backend of others itself. Its result counts there at once, with the store
// or without it, and changes nothing in the store.
func TestExpediteByAnotherReplica(t *testing.T) {
	t.Parallel()
	for name, fault := range map[string]storetest.Fault{
		"with the store": {}, "without the store": {Err: errGone},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			bubble(t, 4, 1, func(t *testing.T, c *cluster) {
				m := c.deaf()
				c.store.Break(fault)
				_, before := c.store.Reports()
				addr, asked := c.backends[0], c.served[c.backends[0]].asked.Load()
				m.prober.Expedite("c")
				pass(10 * time.Millisecond)
				if b := m.backend(addr); b.State != health.Up || b.Dialect == 0 {
					t.Fatalf("after the first call: %+v", b)
				}
				pass(12 * time.Second)
				if b := m.backend(addr); b.State != health.Up {
					t.Errorf("later: %+v", b)
				}
				if _, after := c.store.Reports(); after != before {
					t.Errorf("%d reports to the store", after-before)
				}
				if n := c.served[addr].asked.Load() - asked; n > 4 {
					t.Errorf("%d probes", n)
				}
				c.served[addr].answer.Store(&answer{})
				pass(25 * time.Second)
				if b := m.backend(addr); b.State != health.Down {
					t.Errorf("after bad probes: %+v", b)
				}
				c.served[addr].answer.Store(&answer{ready: true})
				m.prober.Expedite("c")
				pass(time.Second)
				for _, other := range c.members {
					other.cut.Store(false)
				}
				c.store.Break(storetest.Fault{})
				pass(4 * slow.Interval)
				c.allUp("after the owner has found it")
				if n := m.prober.Stats().Probing; n != 0 {
					t.Errorf("%d backends of others are still probed", n)
				}
			})
		})
	}
}

// A replica that has lost the store and all its observations probes for waiting calls itself.
func TestExpediteOfAStaleBackend(t *testing.T) {
	t.Parallel()
	bubble(t, 4, 1, func(t *testing.T, c *cluster) {
		addr := c.backends[0]
		m := c.deaf()
		c.store.Break(storetest.Fault{Err: errGone})
		pass(40 * time.Second)
		if b := m.backend(addr); b.State != health.Unknown {
			t.Errorf("without news: %+v", b)
		}
		m.prober.Expedite("c")
		pass(10 * time.Millisecond)
		if b := m.backend(addr); b.State != health.Up || b.By != m.id {
			t.Errorf("after the first call: %+v", b)
		}
	})
}

// Probes on demand end with the calls that wait.
func TestDemandEnds(t *testing.T) {
	t.Parallel()
	bubble(t, 4, 1, func(t *testing.T, c *cluster) {
		m := c.deaf()
		m.cut.Store(true)
		m.prober.Expedite("c")
		pass(10 * time.Millisecond)
		if n := m.prober.Stats().Probing; n != 1 {
			t.Errorf("%d backends are probed while a call waits", n)
		}
		pass(slow.Interval)
		if n := m.prober.Stats().Probing; n != 0 {
			t.Errorf("%d backends are still probed", n)
		}
	})
}
