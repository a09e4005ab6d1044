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
	"github.com/capgate/capgate/health/storetest"
)

const heartbeat = 2 * time.Second

// cluster is several replicas with one store and one network of backends.
type cluster struct {
	*network
	store    *storetest.Store
	backends []string
	served   map[string]*backend
	stop     map[string]func()
	members  []*member
	owner    map[string]string // of each backend, at the first call of ownedBy
}

// ownedBy returns a backend that id probes.
func (c *cluster) ownedBy(id string) string {
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

// member is one replica. Its clock differs from the others' by minutes.
type member struct {
	id     string
	off    time.Duration // by which its clock is ahead
	prober *health.Prober
	quit   func()

	cut  atomic.Bool // its probes reach no backend
	gone atomic.Bool // it has no connection to the store
	used atomic.Pointer[string]

	mu    sync.Mutex
	conns []net.Conn
	seen  []transition
	quiet []string // backends that did not answer
}

// transition is a reported state of a backend.
type transition struct {
	at    time.Time
	addr  string
	state health.State
}

// newCluster starts replicas in a bubble, with backends that are all up.
func newCluster(t *testing.T, replicas, backends int) *cluster {
	t.Helper()
	c := &cluster{network: newNetwork(t), served: map[string]*backend{}, stop: map[string]func(){}}
	c.store = storetest.New(func() time.Time { return time.Now().Add(17 * time.Hour) })
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

func (c *cluster) join(id string) *member {
	m := &member{id: id}
	m.off = time.Duration(len(c.members)) * 3 * time.Minute
	m.prober = health.New([]health.Fleet{{Capability: "c", Backends: c.backends, Config: slow}}, health.Options{
		Clock:   func() time.Time { return time.Now().Add(m.off) },
		Dial:    func(ctx context.Context, addr string) (net.Conn, error) { return m.dial(ctx, c, addr) },
		Changed: m.see,
		Silent: func(_, addr string) {
			m.mu.Lock()
			defer m.mu.Unlock()
			m.quiet = append(m.quiet, addr)
		},
		Shared: &health.Shared{
			Membership: link{m, c.store}, Store: link{m, c.store}, ID: id, Heartbeat: heartbeat,
			Used: func(_, addr string) bool { used := m.used.Load(); return used != nil && *used == addr },
		},
	})
	m.quit = c.keep(m.prober)
	c.members = append(c.members, m)
	return m
}

// close stops all replicas.
func (c *cluster) close() {
	for _, m := range c.members {
		m.gone.Store(false)
	}
	c.store.Break(storetest.Fault{})
	for _, m := range c.members {
		m.quit()
	}
}

func (m *member) dial(ctx context.Context, c *cluster, addr string) (net.Conn, error) {
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

// blackHole makes all later probes of m hang.
func (m *member) blackHole() {
	m.cut.Store(true)
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, nc := range m.conns {
		_ = nc.Close()
	}
}

// die ends m as kill -9 does: without a message to the store.
func (m *member) die() {
	m.gone.Store(true)
	m.blackHole()
}

func (m *member) see(s *health.Snapshot) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, b := range s.Backends {
		m.seen = append(m.seen, transition{at: time.Now(), addr: b.Addr, state: b.State})
	}
}

// silent returns the backends that did not answer.
func (m *member) silent() []string {
	m.mu.Lock()
	defer m.mu.Unlock()
	return slices.Clone(m.quiet)
}

// real converts a time of m's clock.
func (m *member) real(at time.Time) time.Time { return at.Add(-m.off) }

// first returns when m first reported a backend in a state, at or after start.
func (m *member) first(addr string, state health.State, start time.Time) (at time.Time, ok bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	i := slices.IndexFunc(m.seen, func(s transition) bool {
		return s.addr == addr && s.state == state && !s.at.Before(start)
	})
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

// pass advances the bubble's clock.
func pass(d time.Duration) {
	<-time.After(d)
	synctest.Wait()
}

// everyReplica fails the test unless addr has the state want at all live replicas.
func (c *cluster) everyReplica(addr string, want health.State) {
	c.t.Helper()
	for _, m := range c.members {
		if b := m.backend(addr); !m.gone.Load() && b.State != want {
			c.t.Errorf("after %v: %s says %s is %v (%s), want %v", time.Since(c.start), m.id, addr, b.State, b.Reason,
				want)
		}
	}
}

// allUp fails the test unless all backends are up at all live replicas.
func (c *cluster) allUp(when string) {
	c.t.Helper()
	for _, m := range c.members {
		if got := m.states(); !m.gone.Load() && got != strings.TrimSpace(strings.Repeat("up ", len(c.backends))) {
			c.t.Errorf("%s, %s: %s", when, m.id, got)
		}
	}
}

// neverDown fails the test if a replica has reported a backend as Down since start.
func (c *cluster) neverDown(when string, start time.Time) {
	c.t.Helper()
	for _, m := range c.members {
		for _, addr := range c.backends {
			if at, ok := m.first(addr, health.Down, start); ok && !m.cut.Load() {
				c.t.Errorf("%s: %s said %v later that %s is down", when, m.id, at.Sub(start), addr)
			}
		}
	}
}

// link is a member's connection to the store.
type link struct {
	m *member
	*storetest.Store
}

var errGone = errors.New("no connection")

func (l link) Heartbeat(ctx context.Context, b health.Heartbeat) (health.Members, error) {
	if l.m.gone.Load() {
		return health.Members{}, errGone
	}
	return l.Store.Heartbeat(ctx, b)
}

func (l link) Leave(ctx context.Context, id string) error {
	if l.m.gone.Load() {
		return errGone
	}
	return l.Store.Leave(ctx, id)
}

func (l link) Publish(ctx context.Context, reports []health.Report) ([]health.Waiting, error) {
	if l.m.gone.Load() {
		return nil, errGone
	}
	return l.Store.Publish(ctx, reports)
}

func (l link) Shard(ctx context.Context, n int, whole bool) (health.Shard, error) {
	if l.m.gone.Load() {
		return health.Shard{}, errGone
	}
	return l.Store.Shard(ctx, n, whole)
}

func (l link) Watch(ctx context.Context, tell func(health.Event)) error {
	return l.Store.Watch(ctx, func(n health.Event) {
		if !l.m.gone.Load() {
			tell(n)
		}
	})
}
