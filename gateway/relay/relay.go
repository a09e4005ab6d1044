package relay

import (
	"context"
	"crypto/tls"
	"errors"
	"net"
	"net/http"
	"runtime"
	"sync"
	"sync/atomic"
	"time"
)

// Relay serves clients and forwards their streams to upstreams.
type Relay struct {
	cfg     Config
	public  Port // of Serve
	handler Handler
	shards  []*shard
	epoch   time.Time

	webHandler http.Handler
	webs       atomic.Int64 // requests over HTTP/2 that it has
	date       httpDate
	webLn      *handoff     // of HTTP/1.1 connections
	webSrv     *http.Server // for these

	ctx    context.Context // ends with Close
	cancel context.CancelFunc
	wg     sync.WaitGroup // every goroutine of the relay
	next   atomic.Uint32  // shard of the next connection
	turns  atomic.Uint32  // shard of the next Turn
	slots  chan struct{}  // one per client connection
	crowds crowds
	gate   gate          // of TLS handshakes
	gone   chan struct{} // signals that a client connection has ended, or a call of the process

	serving  atomic.Int64 // functions that serve calls, or were detached from one
	parting  atomic.Bool  // the ends of those, and of calls of the process, are waited for
	selfOnce sync.Once
	self     *Peer // see process

	mistakes mistakes
	refused  mistakes // connections for which there was no room

	mu        sync.Mutex
	listeners map[net.Listener]struct{}
	stopping  bool
}

// New makes a relay that asks h about gRPC streams and hands everything else to web.
// It does nothing until Serve, Open or Unary; Shutdown or Close ends it.
func New(cfg Config, h Handler, web http.Handler) *Relay {
	cfg = cfg.withDefaults()
	r := &Relay{
		cfg:       cfg,
		handler:   h,
		epoch:     time.Now().Add(-time.Second), // 0 on the shards' clock means: never
		slots:     make(chan struct{}, cfg.MaxConns+cfg.MorePorts),
		gone:      make(chan struct{}, 1),
		gate:      gate{free: max(runtime.GOMAXPROCS(0)-1, 1), most: cfg.MaxHandshakes},
		listeners: map[net.Listener]struct{}{},
	}
	r.ctx, r.cancel = context.WithCancel(context.Background())
	if cfg.TLS != nil {
		r.SetTLS(cfg.TLS)
	}
	for i := range cfg.Shards {
		sh := newShard(r, i)
		if err := sh.openLine(); err != nil {
			cfg.Log.Error("connections that bring much may hold up others", "error", err)
		}
		r.shards = append(r.shards, sh)
	}
	r.claim()
	r.startWeb(web)
	return r
}

// ServePort is Serve for clients of another port.
func (r *Relay) ServePort(ln net.Listener, port *Port) error {
	r.mu.Lock()
	if r.stopping {
		r.mu.Unlock()
		return ln.Close()
	}
	r.listeners[ln] = struct{}{}
	r.mu.Unlock()
	for pause := time.Duration(0); ; {
		select {
		case r.slots <- struct{}{}:
		case <-r.ctx.Done():
			return nil
		}
		nc, err := ln.Accept()
		if err == nil {
			pause = 0
			if !r.spawn(func() { r.greet(nc, port) }) {
				_ = nc.Close()
				return nil
			}
			continue
		}
		<-r.slots
		if r.isStopping() {
			return nil
		}
		if errors.Is(err, net.ErrClosed) {
			return err
		}
		// Out of descriptors, most likely: that passes.
		pause = min(max(2*pause, 5*time.Millisecond), time.Second)
		r.cfg.Log.Error("accept", "error", err, "retry_in", pause)
		select {
		case <-time.After(pause):
		case <-r.ctx.Done():
			return nil
		}
	}
}

// spawn starts a goroutine that Close waits for, unless Close was called.
func (r *Relay) spawn(f func()) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.ctx.Err() != nil {
		return false
	}
	r.wg.Go(f)
	return true
}

// Turn waits until it is the turn of one of the shards, each time another: so long bytes of
// a client would wait that came now, if it were one that brings much.
func (r *Relay) Turn() {
	t := make(token)
	r.shards[int(r.turns.Add(1))%len(r.shards)].admit(t)
	<-t
}

// admit gives a token its turn, when it is.
func (sh *shard) admit(t token) {
	sh.enter()
	defer sh.leave()
	if sh.line.fronts.len() > 0 {
		sh.queueUp(t, false)
	} else {
		t.turn()
	}
}

func (r *Relay) shard() *shard {
	return r.shards[int(r.next.Add(1))%len(r.shards)]
}

// greet finds out what a new connection speaks and serves it. Its slot is given back
// when an HTTP/2 connection has ended, or by the web server for its own (web.go).
func (r *Relay) greet(nc net.Conn, port *Port) {
	p, given := &Peer{Port: port, Local: nc.LocalAddr()}, false
	defer func() {
		if !given {
			r.part(p)
		}
	}()
	defer r.guardConn(nc)
	var first []byte
	var err error
	if p.Addr, err = r.origin(nc, port); err != nil {
		r.unset(nc, err)
		return
	}
	if err = r.join(p, nc); err == nil {
		err = r.takeIn(p)
	}
	if err != nil {
		r.refused.tell(r, nc, "a connection was closed: "+err.Error())
		r.unset(nc, err)
		return
	}
	if secure := port.tls.Load(); secure != nil {
		var tc *tls.Conn
		if tc, err = r.handshake(nc, p, secure); err == nil {
			state := tc.ConnectionState()
			p.TLS = &state
			r.meet(p)
			if nc = tc; state.NegotiatedProtocol != "h2" {
				given = true
				r.webLn.give(r.carry(nc, p, nil))
				return
			}
		}
		r.cleartextToTLS(nc, err)
	} else if first, err = r.sniff(nc); err == nil {
		if r.meet(p); string(first) != preface {
			given = true
			r.tlsToCleartext(nc, first)
			r.webLn.give(r.carry(nc, p, first))
			return
		}
	}
	if err != nil {
		r.unset(nc, err)
		return
	}
	r.shard().serve(nc, nil, first, p)
}

// unset ends a connection that could not be set up.
func (r *Relay) unset(nc net.Conn, err error) {
	r.cfg.Log.Debug("connection setup", "remote", nc.RemoteAddr(), "error", err)
	_ = nc.Close()
}

func (r *Relay) handshake(nc net.Conn, p *Peer, secure *tls.Config) (*tls.Conn, error) {
	ctx, cancel := context.WithTimeout(r.ctx, r.cfg.SetupTimeout)
	defer cancel()
	g := &gated{Conn: nc, gate: &r.gate, peer: p, ctx: ctx}
	if err := g.enter(); err != nil {
		return nil, err
	}
	defer g.leave()
	tc := tls.Server(g, secure)
	err := tc.HandshakeContext(ctx)
	g.open = true
	p.hold.add(-handshakeCost - g.charged)
	return tc, err
}

// sniff reads until the bytes are HTTP/2's preface, or cannot become it.
func (r *Relay) sniff(nc net.Conn) ([]byte, error) {
	if err := nc.SetReadDeadline(time.Now().Add(r.cfg.SetupTimeout)); err != nil {
		return nil, err
	}
	defer context.AfterFunc(r.ctx, func() { _ = nc.SetReadDeadline(time.Unix(1, 0)) })()
	buf := make([]byte, 0, len(preface))
	for len(buf) < len(preface) && string(buf) == preface[:len(buf)] {
		n, err := nc.Read(buf[len(buf):cap(buf)])
		buf = buf[:len(buf)+n]
		if err != nil {
			return nil, err
		}
	}
	return buf, nc.SetReadDeadline(time.Time{})
}

// serve runs an HTTP/2 connection until it ends: a client's, or, with a pool, one to
// an upstream, where who is nil. first are bytes that were read already.
func (sh *shard) serve(nc net.Conn, p *pool, first []byte, who *Peer) {
	raw, isRaw := nc.(*net.TCPConn)
	var l link
	var run func()
	var own **conn
	if isRaw {
		rl, err := newRawLink(raw)
		if err != nil {
			_ = nc.Close()
			if p != nil {
				sh.undialed(p, err)
			}
			return
		}
		l, run, own = rl, rl.run, &rl.c
	} else {
		cl := newConnLink(nc)
		l, run, own = cl, cl.run, &cl.c
	}
	if !sh.attach(l, own, p, first, who) {
		_ = nc.Close()
		return
	}
	run()
}

// attach makes a connection one of the shard's. It returns false where that failed.
func (sh *shard) attach(l link, own **conn, p *pool, first []byte, who *Peer) (joined bool) {
	sh.enter()
	defer sh.leave()
	if p != nil && p.dead {
		return false
	}
	c := newConn(sh, p, l, who)
	*own = c
	if sh.relay.ctx.Err() != nil {
		c.lost(ErrClosed)
	} else if len(first) > 0 {
		n := copy(sh.buf[frameHeaderLen:], first)
		c.feed(sh.buf, frameHeaderLen, frameHeaderLen+n)
	}
	return true
}

func (r *Relay) connGone(c *conn) {
	if c.pool == nil {
		wake(r.gone)
	}
}

func (r *Relay) isStopping() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.stopping
}
