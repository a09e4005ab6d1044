package gatewaytest

import (
	"net"
	"net/http"
	"sync"
	"testing"
	"time"

	"google.golang.org/grpc"

	"github.com/capgate/capgate/internal/testkit/check"
)

// Backend is a gRPC server on loopback.
type Backend struct {
	Addr string

	server   *grpc.Server
	served   chan struct{}
	listener *countingListener
}

// Serve runs a gRPC server with the services that register adds, until the test ends.
func Serve(t testing.TB, register func(*grpc.Server), opts ...grpc.ServerOption) *Backend {
	t.Helper()
	return ServeOn(t, check.Listen(t), register, opts...)
}

// ServeOn is Serve on a listener.
func ServeOn(t testing.TB, on net.Listener, register func(*grpc.Server), opts ...grpc.ServerOption) *Backend {
	t.Helper()
	ln := &countingListener{Listener: on, idle: make(chan struct{})}
	opts = append([]grpc.ServerOption{grpc.MaxRecvMsgSize(64 << 20)}, opts...)
	b := &Backend{Addr: ln.Addr().String(), server: grpc.NewServer(opts...), served: make(chan struct{}), listener: ln}
	register(b.server)
	go func() {
		defer close(b.served)
		_ = b.server.Serve(ln) // ends with Stop
	}()
	check.Cleanup(t, b.Stop)
	return b
}

// Stop ends the server at once, with its connections and calls.
func (b *Backend) Stop() {
	b.server.Stop()
	<-b.served
}

// Accepted returns the number of connections that clients have made.
func (b *Backend) Accepted() int { return b.listener.total() }

// GoAway sends GOAWAY to clients and lets their calls finish. Any goroutine of a test may call it.
func (b *Backend) GoAway(t testing.TB) {
	t.Helper()
	go b.server.GracefulStop()
	select {
	case <-b.served: // once it has stopped
	case <-time.After(check.Patience):
		t.Errorf("waited %v for the end of the connections to a backend that says goodbye", check.Patience)
	}
}

// WaitIdle waits until no client is connected.
func (b *Backend) WaitIdle(t testing.TB) {
	t.Helper()
	check.UntilEvent(t, "no connection to a backend", func() (bool, int, <-chan struct{}) {
		n, changed := b.listener.state()
		return n == 0, n, changed
	})
}

// countingListener counts open connections.
type countingListener struct {
	net.Listener

	mu       sync.Mutex
	open     int
	accepted int
	idle     chan struct{} // closed, and replaced, whenever one closes
}

func (l *countingListener) Accept() (net.Conn, error) {
	nc, err := l.Listener.Accept()
	if err != nil {
		return nil, err
	}
	l.mu.Lock()
	l.open++
	l.accepted++
	l.mu.Unlock()
	return &countedConn{Conn: nc, from: l}, nil
}

func (l *countingListener) state() (open int, changed <-chan struct{}) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.open, l.idle
}

func (l *countingListener) total() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.accepted
}

type countedConn struct {
	net.Conn
	from *countingListener
	once sync.Once
}

func (c *countedConn) Close() error {
	c.once.Do(func() {
		c.from.mu.Lock()
		c.from.open--
		close(c.from.idle)
		c.from.idle = make(chan struct{})
		c.from.mu.Unlock()
	})
	return c.Conn.Close()
}

// Unreachable returns an address at which every connection is closed at once.
func Unreachable(t testing.TB) string {
	t.Helper()
	ln := check.Listen(t)
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		for {
			nc, err := ln.Accept()
			if err != nil {
				return
			}
			_ = nc.Close()
		}
	}()
	check.Cleanup(t, func() {
		_ = ln.Close()
		<-ended
	})
	return ln.Addr().String()
}

// Deaf returns an address at which connections are accepted and never answered.
func Deaf(t testing.TB) string {
	t.Helper()
	ln := check.Listen(t)
	check.Cleanup(t, func() { _ = ln.Close() })
	return ln.Addr().String()
}

// Silent returns a backend that accepts calls and responds to none, whatever their deadline.
func Silent(t testing.TB) (addr string) {
	t.Helper()
	ln := check.Listen(t)
	protocols := new(http.Protocols)
	protocols.SetUnencryptedHTTP2(true)
	server := &http.Server{Protocols: protocols, Handler: http.HandlerFunc(func(_ http.ResponseWriter,
		r *http.Request) {
		<-r.Context().Done()
	})}
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		_ = server.Serve(ln) // ends with Close
	}()
	check.Cleanup(t, func() {
		_ = server.Close()
		<-ended
	})
	return ln.Addr().String()
}
