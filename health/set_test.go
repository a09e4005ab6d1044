package health_test

import (
	"context"
	"fmt"
	"net"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/capgate/capgate/health"
	"github.com/capgate/capgate/internal/testkit/check"
)

// counted counts its open connections.
type counted struct {
	net.Conn
	open   *atomic.Int64
	closed atomic.Bool
}

func (c *counted) Close() error {
	if c.closed.CompareAndSwap(false, true) {
		c.open.Add(-1)
	}
	return c.Conn.Close()
}

func (w *network) changes() int {
	w.mu.Lock()
	defer w.mu.Unlock()
	return len(w.told)
}

func names(s *health.Snapshot) string {
	var all []string
	for _, b := range s.Backends {
		all = append(all, b.Addr+" "+b.State.String())
	}
	return strings.Join(all, ", ")
}

func TestMembersComeAndGo(t *testing.T) {
	t.Parallel()
	check.Bubble(t, func(t *testing.T) {
		w := newNetwork(t)
		a, b := newBackend(answer{ready: true}), newBackend(answer{ready: true})
		w.raise("a:1", doc(a))
		w.raise("b:1", doc(b))
		var open atomic.Int64
		fleet := func(capability string, backends ...string) health.Fleet {
			return health.Fleet{Capability: capability, Backends: backends, Config: slow}
		}
		p := health.New([]health.Fleet{fleet("c", "a:1"), fleet("other", "b:1")}, health.Options{
			Dial: func(ctx context.Context, addr string) (net.Conn, error) {
				nc, err := w.dial(ctx, addr)
				if err != nil {
					return nil, err
				}
				open.Add(1)
				return &counted{Conn: nc, open: &open}, nil
			},
			Changed: func(s *health.Snapshot) {
				w.mu.Lock()
				defer w.mu.Unlock()
				w.told = append(w.told, s)
			},
		})
		defer w.keep(p)()
		synctest.Wait()
		asked := a.asked.Load()
		since := p.Snapshot("c").Backends[0].Since

		<-time.After(time.Second)
		p.Set([]health.Fleet{fleet("c", "gone:1", "a:1"), fleet("new", "b:1")})
		if got := names(p.Snapshot("c")); got != "gone:1 unknown, a:1 up" {
			t.Errorf("as soon as there is a new member: %s", got)
		}
		if p.Snapshot("other") != nil || names(p.Snapshot("new")) != "b:1 unknown" {
			t.Errorf("a fleet that left: %v; a new one: %s", p.Snapshot("other"), names(p.Snapshot("new")))
		}
		synctest.Wait()
		if got := names(p.Snapshot("c")) + ", " + names(p.Snapshot("new")); got != "gone:1 down, a:1 up, b:1 up" {
			t.Errorf("after the first probe: %s", got)
		}
		if a.asked.Load() != asked || !p.Snapshot("c").Backends[1].Since.Equal(since) {
			t.Errorf("a backend that stayed was probed %d times, want %d; up since %v, want %v", a.asked.Load(), asked,
				p.Snapshot("c").Backends[1].Since, since)
		}
		if n := open.Load(); n != 2 {
			t.Errorf("%d connections to two backends", n)
		}
		<-time.After(10*time.Second + time.Millisecond) // it is due 9 to 11 s after the first probe
		synctest.Wait()
		if n := a.asked.Load(); n != asked+1 {
			t.Errorf("a backend that stayed was probed %d times in an interval", n-asked)
		}

		changes := w.changes()
		p.Set([]health.Fleet{fleet("c", "gone:1", "a:1"), fleet("new", "b:1")})
		if w.changes() != changes {
			t.Error("a change was reported where nothing changed")
		}
		p.Set([]health.Fleet{fleet("c")})
		if w.changes() != changes+1 {
			t.Error("no change was reported when a fleet lost its backends")
		}
		synctest.Wait()
		if n := open.Load(); n != 0 || len(p.Snapshot("c").Backends) != 0 {
			t.Errorf("%d connections to no backends; the backends %+v", n, p.Snapshot("c").Backends)
		}
		askedA, askedB := a.asked.Load(), b.asked.Load()
		<-time.After(time.Minute)
		synctest.Wait()
		if a.asked.Load() != askedA || b.asked.Load() != askedB {
			t.Errorf("a removed backend is probed; a.asked %+v; b.asked %+v", a.asked.Load(), b.asked.Load())
		}
	})
}

// A backend that is removed during its probe is released with its connection.
func TestMemberLeavesWhileProbed(t *testing.T) {
	t.Parallel()
	check.Bubble(t, func(t *testing.T) {
		w := newNetwork(t)
		w.raise("a:1", doc(newBackend(answer{hang: true})))
		p, stop := w.run(health.Fleet{Capability: "c", Backends: []string{"a:1"}, Config: slow}, 1)
		defer stop()
		<-time.After(500 * time.Millisecond)
		w.raise("b:1", doc(newBackend(answer{ready: true})))
		p.Set([]health.Fleet{{Capability: "c", Backends: []string{"b:1"}, Config: slow}})
		<-time.After(600 * time.Millisecond) // the only concurrent probe ran until then
		synctest.Wait()
		if got := names(p.Snapshot("c")); got != "b:1 up" {
			t.Error(got)
		}
	})
}

// BenchmarkSet changes one of 10,000 fleets.
func BenchmarkSet(b *testing.B) {
	fleets := make([]health.Fleet, 10_000)
	for i := range fleets {
		fleets[i].Capability = fmt.Sprintf("c%d", i)
		for j := range 10 {
			fleets[i].Backends = append(fleets[i].Backends, fmt.Sprintf("10.%d.%d.%d:50051", i>>8, i&255, j))
		}
	}
	p := health.New(fleets, health.Options{})
	one, two := fleets[17].Backends, fleets[17].Backends[1:]
	b.ReportAllocs()
	for i := range b.N {
		fleets[17].Backends = one
		if i%2 == 0 {
			fleets[17].Backends = two
		}
		p.Set(fleets)
	}
}
