package health_test

import (
	"context"
	"errors"
	"fmt"
	"net"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/capgate/capgate/health"
	"github.com/capgate/capgate/health/boardtest"
)

const heartbeat = 2 * time.Second

// crowd is several replicas with one board and one network of backends.
type crowd struct {
	*world
	board    *boardtest.Board
	backends []string
	served   map[string]*backend
	stop     map[string]func()
	members  []*member
	owner    map[string]string // whose turn a backend was when turnOf was asked first
}

// turnOf returns a backend that id probes.
func (c *crowd) turnOf(id string) string {
	if c.owner == nil {
		c.owner = map[string]string{}
		for _, addr := range c.backends {
			c.owner[addr] = c.members[0].backend(addr).By
		}
	}
	for _, addr := range c.backends {
		if c.owner[addr] == id {
			return addr
		}
	}
	c.t.Fatalf("%s probes nothing: %v", id, c.owner)
	return ""
}

// member is one replica. Its clock is minutes from the others'.
type member struct {
	id     string
	off    time.Duration // its clock is ahead
	prober *health.Prober
	quit   func()

	cut  atomic.Bool // its probes reach nobody
	gone atomic.Bool // the board hears nothing of it and it hears nothing
	used atomic.Pointer[string]

	mu    sync.Mutex
	conns []net.Conn
	seen  []sighting
}

// sighting is a backend's state when it was told.
type sighting struct {
	at    time.Time
	addr  string
	state health.State
}

// newCrowd makes n replicas in a bubble, with backends that are all up, and waits
// until they have found each other.
func newCrowd(t *testing.T, replicas, backends int) *crowd {
	t.Helper()
	c := &crowd{world: newWorld(t), served: map[string]*backend{}, stop: map[string]func(){}}
	c.board = boardtest.New(func() time.Time { return time.Now().Add(17 * time.Hour) })
	for i := range backends {
		addr := fmt.Sprintf("b%d:1", i)
		c.backends = append(c.backends, addr)
		c.served[addr] = newBackend(answer{ready: true})
		c.stop[addr] = c.raise(addr, live(c.served[addr]))
	}
	for i := range replicas {
		c.join(fmt.Sprintf("r%d", i))
	}
	return c
}

func (c *crowd) join(id string) *member {
	m := &member{id: id}
	m.off = time.Duration(len(c.members)) * 3 * time.Minute
	m.prober = health.New([]health.Fleet{{Capability: "c", Backends: c.backends, Config: slow}}, health.Options{
		Clock:   func() time.Time { return time.Now().Add(m.off) },
		Dial:    func(ctx context.Context, addr string) (net.Conn, error) { return m.dial(ctx, c, addr) },
		Changed: m.see,
		Shared: &health.Shared{
			Roll: link{m, c.board}, Board: link{m, c.board}, ID: id, Heartbeat: heartbeat,
			Used: func(_, addr string) bool { used := m.used.Load(); return used != nil && *used == addr },
		},
	})
	m.quit = c.keep(m.prober)
	c.members = append(c.members, m)
	return m
}

// close ends all replicas.
func (c *crowd) close() {
	for _, m := range c.members {
		m.gone.Store(false)
	}
	c.board.Break(boardtest.Fault{})
	for _, m := range c.members {
		m.quit()
	}
}

func (m *member) dial(ctx context.Context, c *crowd, addr string) (net.Conn, error) {
	if m.cut.Load() {
		<-ctx.Done()
		return nil, ctx.Err()
	}
	nc, err := c.dial(ctx, addr)
	if err == nil {
		m.mu.Lock()
		m.conns = append(m.conns, nc)
		m.mu.Unlock()
	}
	return nc, err
}

// blackHole makes nobody answer m's probes any more.
func (m *member) blackHole() {
	m.cut.Store(true)
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, nc := range m.conns {
		_ = nc.Close()
	}
}

// die ends m as kill -9 does: nobody hears of it any more.
func (m *member) die() {
	m.gone.Store(true)
	m.blackHole()
}

func (m *member) see(s *health.Snapshot) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, b := range s.Backends {
		m.seen = append(m.seen, sighting{at: time.Now(), addr: b.Addr, state: b.State})
	}
}

// real returns what the time was when m's clock showed at.
func (m *member) real(at time.Time) time.Time { return at.Add(-m.off) }

// first returns when m saw a backend in a state, at or after start.
func (m *member) first(addr string, state health.State, start time.Time) (at time.Time, ok bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	i := slices.IndexFunc(m.seen, func(s sighting) bool { return s.addr == addr && s.state == state && !s.at.Before(start) })
	if i < 0 {
		return time.Time{}, false
	}
	return m.seen[i].at, true
}

func (m *member) backend(addr string) health.Backend {
	for _, b := range m.prober.Snapshot("c").Backends {
		if b.Addr == addr {
			return b
		}
	}
	return health.Backend{}
}

func (m *member) states() string {
	var all []string
	for _, b := range m.prober.Snapshot("c").Backends {
		all = append(all, b.State.String())
	}
	return strings.Join(all, " ")
}

// pass lets time go by.
func pass(d time.Duration) {
	<-time.After(d)
	synctest.Wait()
}

// everybody fails the test unless all living replicas say want of addr.
func (c *crowd) everybody(addr string, want health.State) {
	c.t.Helper()
	for _, m := range c.members {
		if b := m.backend(addr); !m.gone.Load() && b.State != want {
			c.t.Errorf("after %v: %s says %s is %v (%s), want %v", time.Since(c.start), m.id, addr, b.State, b.Reason, want)
		}
	}
}

// allUp fails the test unless all living replicas say that all backends are up.
func (c *crowd) allUp(when string) {
	c.t.Helper()
	for _, m := range c.members {
		if got := m.states(); !m.gone.Load() && got != strings.TrimSpace(strings.Repeat("up ", len(c.backends))) {
			c.t.Errorf("%s, %s: %s", when, m.id, got)
		}
	}
}

// neverDown fails the test if anybody has said since start that a backend is down.
func (c *crowd) neverDown(when string, start time.Time) {
	c.t.Helper()
	for _, m := range c.members {
		for _, addr := range c.backends {
			if at, ok := m.first(addr, health.Down, start); ok && !m.cut.Load() {
				c.t.Errorf("%s: %s said %v later that %s is down", when, m.id, at.Sub(start), addr)
			}
		}
	}
}

// link is a member's way to the board.
type link struct {
	m *member
	*boardtest.Board
}

var errGone = errors.New("nobody there")

func (l link) Beat(ctx context.Context, b health.Beat) (health.Members, error) {
	if l.m.gone.Load() {
		return health.Members{}, errGone
	}
	return l.Board.Beat(ctx, b)
}

func (l link) Leave(ctx context.Context, id string) error {
	if l.m.gone.Load() {
		return errGone
	}
	return l.Board.Leave(ctx, id)
}

func (l link) Post(ctx context.Context, reports []health.Report) error {
	if l.m.gone.Load() {
		return errGone
	}
	return l.Board.Post(ctx, reports)
}

func (l link) Page(ctx context.Context, n int, whole bool) (health.Page, error) {
	if l.m.gone.Load() {
		return health.Page{}, errGone
	}
	return l.Board.Page(ctx, n, whole)
}

func (l link) Follow(ctx context.Context, tell func(health.Notice)) error {
	return l.Board.Follow(ctx, func(n health.Notice) {
		if !l.m.gone.Load() {
			tell(n)
		}
	})
}
