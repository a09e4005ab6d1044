package accept

import (
	"context"
	"crypto/tls"
	"errors"
	"io"
	"net"
	"net/http"
	"runtime"
	"sync"
	"time"

	"github.com/capgate/capgate/gateway/relay/accept/http1"
)

// Preface is the start of an HTTP/2 connection (RFC 9113 §3.4).
const Preface = "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"

// HTTP2 serves HTTP/2 connections.
type HTTP2 interface {
	// NewConn takes over a connection. first has the bytes already read. The result serves it until its end, on a
	// goroutine of its own; nil means that it has ended.
	NewConn(nc net.Conn, first []byte, p *Peer) (serve func())
	// RejectCleartext informs an HTTP/2 client in cleartext that the port requires TLS. It reads from in, which starts
	// with the Preface and has a limit and a deadline.
	RejectCleartext(nc net.Conn, in io.Reader)
}

// Server accepts connections.
type Server struct {
	cfg        Config
	http2      HTTP2
	common     *http1.Server // for common requests over HTTP/1.1
	http1      *http.Server  // for connections with other ones
	http1Ln    *handoff
	ctx        context.Context
	cancel     context.CancelFunc // ends ctx; called by Close
	wg         sync.WaitGroup     // all goroutines of the Server
	slots      chan struct{}      // one per client connection
	limits     connLimits
	handshakes handshakeLimit
	mismatches warnings // connections with another protocol than their port
	refused    warnings // connections without room

	mu        sync.Mutex
	listeners map[net.Listener]struct{}
	stopping  bool
}

// New returns a Server that passes HTTP/2 connections to h2, and HTTP/1.1 requests to h. Close must be called to end
// it.
func New(cfg Config, h2 HTTP2, h http.Handler) *Server {
	s := &Server{
		cfg:        cfg,
		http2:      h2,
		http1Ln:    newHandoff(),
		slots:      make(chan struct{}, cfg.Limits.MaxConns+cfg.Limits.MorePorts),
		handshakes: handshakeLimit{free: max(runtime.GOMAXPROCS(0)-1, 1), most: cfg.Limits.MaxHandshakes},
		listeners:  map[net.Listener]struct{}{},
	}
	s.ctx, s.cancel = context.WithCancel(context.Background())
	s.common, s.http1 = s.newCommon(h), s.newHTTP1(h)
	s.wg.Go(func() { _ = s.http1.Serve(s.http1Ln) })
	return s
}

// HTTP1 returns net/http's server, for http.ServerContextKey.
func (s *Server) HTTP1() *http.Server { return s.http1 }

// Serve accepts clients of a port on ln until StopListening or Close, and closes ln. It returns nil after those, or
// the listener's error.
func (s *Server) Serve(ln net.Listener, port *Port) error {
	s.mu.Lock()
	if s.stopping {
		s.mu.Unlock()
		return ln.Close()
	}
	s.listeners[ln] = struct{}{}
	s.mu.Unlock()
	for pause := time.Duration(0); ; {
		select {
		case s.slots <- struct{}{}:
		case <-s.ctx.Done():
			return nil
		}
		nc, err := ln.Accept()
		if err == nil {
			pause = 0
			if !s.spawn(func() { s.setUp(nc, port) }) {
				_ = nc.Close()
				return nil
			}
			continue
		}
		<-s.slots
		if s.isStopping() {
			return nil
		}
		if errors.Is(err, net.ErrClosed) {
			return err
		}
		// Most likely out of file descriptors, which is temporary.
		pause = min(max(2*pause, 5*time.Millisecond), time.Second)
		s.cfg.Log.Error("accept", "error", err, "retry_in", pause)
		select {
		case <-time.After(pause):
		case <-s.ctx.Done():
			return nil
		}
	}
}

// StopListening closes the listeners. Connections are unaffected.
func (s *Server) StopListening() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.stopping = true
	for ln := range s.listeners {
		_ = ln.Close()
	}
	clear(s.listeners)
}

// Close ends all connections that are being set up or use HTTP/1.1. Wait waits for their end.
func (s *Server) Close() {
	s.StopListening()
	s.mu.Lock()
	s.cancel() // under the lock, so that spawn starts nothing afterwards
	s.mu.Unlock()
	s.common.Close()
	_ = s.http1.Close()
}

// Wait returns when all goroutines of the Server have ended, including those that serve HTTP/2.
func (s *Server) Wait() { s.wg.Wait() }

// spawn starts a goroutine that Wait waits for, unless Close was called.
func (s *Server) spawn(f func()) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.ctx.Err() != nil {
		return false
	}
	s.wg.Go(f)
	return true
}

func (s *Server) isStopping() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.stopping
}

// setUp detects the protocol of a new connection and serves it. The slot is released at the end of the connection, by
// connState for a connection that net/http's server has.
func (s *Server) setUp(nc net.Conn, port *Port) {
	p, handedOver := &Peer{Port: port, Local: nc.LocalAddr()}, false
	defer func() {
		if !handedOver {
			s.release(p)
		}
	}()
	defer s.recoverConn(nc)
	var err error
	if p.Addr, err = s.origin(nc, port); err != nil {
		s.fail(nc, err)
		return
	}
	if err = s.admit(p, nc); err == nil {
		err = s.charge(p)
	}
	if err != nil {
		s.refused.warn(s.cfg.Log, nc, "a connection was closed: "+err.Error())
		s.fail(nc, err)
		return
	}
	nc, first, isHTTP2, err := s.detect(nc, p)
	switch {
	case err != nil:
		s.fail(nc, err)
	case isHTTP2:
		if serve := s.http2.NewConn(nc, first, p); serve != nil {
			handedOver = true
			s.wg.Go(func() { s.serve(serve, nc, p) })
		}
	case !p.memory.add(HTTP1Bytes):
		s.limits.noMemory.Add(1)
		s.fail(nc, ErrNoMemory)
	default:
		handedOver = true
		c := s.newHTTP1Conn(nc, p)
		s.wg.Go(func() { s.serveHTTP1(c, first) })
	}
}

// serve serves an HTTP/2 connection. It runs on a goroutine of its own, because the setup's stack has grown.
func (s *Server) serve(serve func(), nc net.Conn, p *Peer) {
	defer s.release(p)
	if tc, ok := nc.(*tls.Conn); ok {
		nc = tc.NetConn() // TLS belongs to the relay, and its Close would write
	}
	defer s.recoverConn(nc)
	serve()
}

// detect performs the TLS handshake, if the port uses TLS, and returns the connection, the bytes already read, and
// whether it uses HTTP/2.
func (s *Server) detect(nc net.Conn, p *Peer) (_ net.Conn, first []byte, isHTTP2 bool, err error) {
	if secure := p.Port.tls.Load(); secure != nil {
		tc, err := s.handshake(nc, p, secure)
		if err != nil {
			s.cleartextToTLS(nc, err)
			return nc, nil, false, err
		}
		state := tc.ConnectionState()
		p.TLS = &state
		s.connected(p)
		return tc, nil, state.NegotiatedProtocol == "h2", nil
	}
	if first, err = s.sniff(nc); err != nil {
		return nc, nil, false, err
	}
	s.connected(p)
	if isHTTP2 = string(first) == Preface; !isHTTP2 {
		s.tlsToCleartext(nc, first)
	}
	return nc, first, isHTTP2, nil
}

func (s *Server) connected(p *Peer) {
	if s.cfg.OnConnect != nil {
		p.Value = s.cfg.OnConnect(p)
	}
}

// fail ends a connection whose setup has failed.
func (s *Server) fail(nc net.Conn, err error) {
	s.cfg.Log.Debug("connection setup", "remote", nc.RemoteAddr(), "error", err)
	_ = nc.Close()
}

// recoverConn closes a connection whose goroutine has panicked. It must be deferred.
func (s *Server) recoverConn(nc net.Conn) {
	if v := recover(); v != nil {
		s.cfg.Panicked("relay connection", v)
		_ = nc.Close()
	}
}

// origin returns the client's address.
func (s *Server) origin(nc net.Conn, port *Port) (net.Addr, error) {
	if s.cfg.Origin == nil || port.Direct {
		return nc.RemoteAddr(), nil
	}
	if err := nc.SetReadDeadline(time.Now().Add(s.cfg.SetupTimeout)); err != nil {
		return nil, err
	}
	stop := context.AfterFunc(s.ctx, func() { _ = nc.SetReadDeadline(time.Unix(1, 0)) })
	addr, err := s.cfg.Origin(nc)
	if !stop() && err == nil {
		err = s.ctx.Err()
	}
	if err != nil {
		return nil, err
	}
	return addr, nc.SetReadDeadline(time.Time{})
}

func (s *Server) handshake(nc net.Conn, p *Peer, secure *tls.Config) (*tls.Conn, error) {
	ctx, cancel := context.WithTimeout(s.ctx, s.cfg.SetupTimeout)
	defer cancel()
	c := &handshakeConn{Transport: Transport{Conn: nc}, limit: &s.handshakes, peer: p, ctx: ctx}
	if err := c.acquire(); err != nil {
		return nil, err
	}
	defer c.release()
	tc := tls.Server(c, secure)
	err := tc.HandshakeContext(ctx)
	c.done = true
	p.memory.add(-handshakeBytes - c.charged)
	return tc, err
}

// sniff reads until the bytes are the Preface, or differ from it.
func (s *Server) sniff(nc net.Conn) ([]byte, error) {
	if err := nc.SetReadDeadline(time.Now().Add(s.cfg.SetupTimeout)); err != nil {
		return nil, err
	}
	defer context.AfterFunc(s.ctx, func() { _ = nc.SetReadDeadline(time.Unix(1, 0)) })()
	buf := make([]byte, 0, len(Preface))
	for len(buf) < len(Preface) && string(buf) == Preface[:len(buf)] {
		n, err := nc.Read(buf[len(buf):cap(buf)])
		buf = buf[:len(buf)+n]
		if err != nil {
			return nil, err
		}
	}
	return buf, nc.SetReadDeadline(time.Time{})
}
