package relay

import (
	"context"
	"errors"
	"hash"
	"hash/fnv"
	"math/rand/v2"
	"net"
	"testing"
	"time"
)

// machine runs a shard's state machines without sockets: feed gets bytes in pieces of any size, and the links accept a
// limited number of bytes at a time. Everything follows from a seed.
type machine struct {
	group     *Group // of most calls; nil means that they have none
	slowed    int    // how often a stream of the group had to wait
	t         testing.TB
	rng       *rand.Rand
	sh        *shard
	up        *Upstream
	clients   []*endpoint
	upstreams []*endpoint
	calls     []*call
	byNum     map[string]*call
	lenient   bool // the relay may refuse calls for lack of memory
	maxOpen   uint32
	trace     hash.Hash64 // of all bytes that the relay wrote
}

// fakeLink is a socket that accepts room bytes, and then none until room grows.
type fakeLink struct {
	out      []byte
	room     int
	waiting  bool // the conn waits for writable to be called
	finished bool
	closed   bool
	failure  error // of all writes; nil means none
}

func (l *fakeLink) holds() int { return 0 }

func (l *fakeLink) write(pieces [][]byte) (int, error) {
	if l.closed {
		return 0, errors.New("written to after close")
	}
	if l.failure != nil {
		return 0, l.failure
	}
	total := 0
	for _, p := range pieces {
		n := min(len(p), l.room)
		l.out = append(l.out, p[:n]...)
		l.room -= n
		total += n
		if n < len(p) {
			l.waiting = true
			break
		}
	}
	return total, nil
}

func (l *fakeLink) finish() { l.finished = true }
func (l *fakeLink) close()  { l.closed = true }
func (l *fakeLink) resume() {}

const plenty = 1 << 40

func newMachine(t testing.TB, seed uint64, cfg Config) *machine {
	cfg.Shards = 1
	cfg.Timeouts.Setup, cfg.Timeouts.Idle, cfg.Timeouts.KeepAlive, cfg.Timeouts.Ping = time.Hour, time.Hour,
		time.Second, time.Hour
	m := &machine{t: t, rng: rand.New(rand.NewPCG(seed, 0)), byNum: map[string]*call{}, maxOpen: 1 << 20,
		trace: fnv.New64a()}
	r := bareRelay(t, cfg, &machineHandler{m})
	m.sh = r.shards[0]
	m.up = r.NewUpstream(UpstreamConfig{
		MaxConns: 2, DialTimeout: time.Hour, KeepAlive: time.Second,
		// Connections are made by attach.
		Dial: func(ctx context.Context) (net.Conn, error) { <-ctx.Done(); return nil, ctx.Err() },
	})
	return m
}

// addClient connects a client.
func (m *machine) addClient() *endpoint {
	e := newEndpoint(m, true)
	m.sh.enter()
	e.c = newConn(m.sh, nil, e.link, &Peer{})
	e.c.grouped = true // a connection without memory of its own is cut off
	m.sh.leave()
	e.wire = append(e.wire, preface...)
	e.hello(1 << 30)
	m.clients = append(m.clients, e)
	return e
}

// attach answers the pool's dial with a connection.
func (m *machine) attach() {
	e := newEndpoint(m, false)
	m.sh.enter()
	e.c = newConn(m.sh, m.sh.poolOf(m.up), e.link, nil)
	m.sh.leave()
	e.hello(m.maxOpen)
	m.upstreams = append(m.upstreams, e)
}

// settleDials makes the connections that the pool has dialed.
func (m *machine) settleDials() {
	m.sh.enter()
	p := m.sh.poolOf(m.up)
	want := p.dialing
	for c := range m.sh.conns {
		if c.pool == p && !c.settled {
			want--
		}
	}
	m.sh.leave()
	for range want {
		m.attach()
	}
}

// takes reports whether the relay reads the endpoint's output.
func (m *machine) takes(e *endpoint) bool {
	m.sh.enter()
	defer m.sh.leave()
	return !e.c.closed && !e.c.stalled && (len(e.wire) > 0 || e.c.backlog != nil)
}

// deliver feeds n bytes of the endpoint's output through the buffer that all connections of a shard share, or else the
// rest of what it fed before.
func (m *machine) deliver(e *endpoint, n int) {
	m.sh.enter()
	defer m.sh.leave()
	if e.c.closed || e.c.stalled {
		return
	}
	if m.rng.IntN(3) == 0 {
		m.sh.until = 1 // the time slice is over: the conn stops after a few frames
	}
	if e.c.backlog != nil {
		e.c.feedBacklog()
		return
	}
	if n = min(n, len(e.wire), readBuffer); n == 0 {
		return
	}
	clear(m.sh.buf[:64<<10]) // overwrites bytes of an earlier turn, which no output may still refer to
	copy(m.sh.buf[frameHeaderLen:], e.wire[:n])
	e.wire = append(e.wire[:0], e.wire[n:]...)
	e.c.feed(m.sh.buf, frameHeaderLen, frameHeaderLen+n)
}

// give lets the endpoint's socket accept n more bytes.
func (m *machine) give(e *endpoint, n int) {
	m.sh.enter()
	defer m.sh.leave()
	if e.link.room += n; e.link.waiting {
		e.link.waiting = false
		e.c.writable()
	}
}

// collect lets all endpoints read the relay's output.
func (m *machine) collect() {
	for _, list := range [][]*endpoint{m.clients, m.upstreams} {
		for _, e := range list {
			m.sh.mu.Lock()
			_, _ = m.trace.Write(append(e.link.out, '|'))
			e.rest = append(e.rest, e.link.out...)
			e.link.out = e.link.out[:0]
			m.sh.mu.Unlock()
			e.parse()
		}
	}
}
