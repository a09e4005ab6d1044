package http1

import (
	"context"
	"net"
	"net/http"
	"sync"
	"sync/atomic"
	"time"
)

// Conn is a client's connection.
type Conn interface {
	net.Conn
	// Receive reads like Read, which is for net/http's server.
	Receive(p []byte) (int, error)
	// Await calls try as syscall.RawConn.Read does. It returns ErrNoSocket if the connection has other bytes than a
	// socket.
	Await(try func(fd uintptr) (done bool)) error
	// Unread is called before Close if the client still sends the body of its last request.
	Unread()
	// Value returns a value of the contexts of requests; nil means none.
	Value(key any) any
}

// Config configures a Server. All fields are required.
type Config struct {
	Handler http.Handler
	// HandOver takes over a connection and the bytes that were read from it.
	HandOver func(c Conn, unread []byte)
	// Panicked is called for each recovered panic, by the deferred function that recovered it.
	Panicked func(where string, v any)
	Setup    time.Duration // before the first request
	Idle     time.Duration // between requests
}

// Server serves connections.
type Server struct {
	cfg      Config
	date     Date
	stopping atomic.Bool
	gone     chan struct{} // signals the end of a connection

	mu     sync.Mutex
	conns  map[*conn]struct{}
	closed bool
}

// New returns a Server.
func New(cfg Config) *Server {
	return &Server{cfg: cfg, gone: make(chan struct{}, 1), conns: map[*conn]struct{}{}}
}

// Serve serves a connection until its end, or until it is handed over, and reports whether it was. Otherwise the caller
// must close it. first has the bytes already read.
func (s *Server) Serve(nc Conn, first []byte) (handedOver bool) {
	c := &conn{srv: s, nc: nc, remote: nc.RemoteAddr().String()}
	c.try, c.watch.conn = c.read, c
	c.watch.over.L = &c.watch.mu
	if !s.add(c) {
		return false
	}
	unread, handedOver := c.serve(first)
	if handedOver {
		s.cfg.HandOver(nc, unread)
	}
	return handedOver
}

func (s *Server) add(c *conn) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.closed {
		s.conns[c] = struct{}{}
	}
	return !s.closed
}

func (s *Server) remove(c *conn) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.conns, c)
	select {
	case s.gone <- struct{}{}:
	default:
	}
}

// freshGrace is the time that a new connection has for its first request during a shutdown, as in net/http.
const freshGrace = 5 * time.Second

// Shutdown ends idle connections, and the others after their response. It returns when none is left, or ctx's error. It
// must not be called concurrently.
func (s *Server) Shutdown(ctx context.Context) error {
	s.stopping.Store(true)
	for _, c := range s.all() {
		c.leave()
	}
	for len(s.all()) > 0 {
		select {
		case <-s.gone:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	return nil
}

// Close ends all connections at once.
func (s *Server) Close() {
	s.mu.Lock()
	s.closed = true
	s.mu.Unlock()
	s.stopping.Store(true)
	for _, c := range s.all() {
		c.watch.cancelRequest()
		_ = c.nc.Close()
	}
}

func (s *Server) all() []*conn {
	s.mu.Lock()
	defer s.mu.Unlock()
	all := make([]*conn, 0, len(s.conns))
	for c := range s.conns {
		all = append(all, c)
	}
	return all
}
