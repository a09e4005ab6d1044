package grpcservice

import (
	"context"
	"net"
	"sync"
	"sync/atomic"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/connectivity"

	"github.com/capgate/capgate/internal/lib/buildinfo"
	"github.com/capgate/capgate/internal/lib/recovery"
)

// links tracks the open connections of a channel. grpc-go sends PINGs at fixed times only, so a frozen backend is
// detected differently: no data is received on its connections, and it does not start HTTP/2 on a new one either.
type links struct {
	mu     sync.Mutex
	open   map[*watched]struct{}
	stop   context.CancelFunc // cancels the check in progress; nil means none
	closed bool
	checks sync.WaitGroup
}

// watched is a connection that records when data was received.
type watched struct {
	net.Conn
	of   *links
	read atomic.Int64 // time of the last byte, in ns since 1970
}

// add wraps a new connection.
func (l *links) add(nc net.Conn, err error) (net.Conn, error) {
	if err != nil {
		return nil, err
	}
	c := &watched{Conn: nc, of: l}
	c.read.Store(time.Now().UnixNano())
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.open == nil {
		l.open = map[*watched]struct{}{}
	}
	l.open[c] = struct{}{}
	return c, nil
}

// Read implements net.Conn.
func (c *watched) Read(p []byte) (n int, err error) {
	if n, err = c.Conn.Read(p); n > 0 {
		c.read.Store(time.Now().UnixNano())
	}
	return n, err
}

// Close implements net.Conn.
func (c *watched) Close() error {
	c.of.mu.Lock()
	delete(c.of.open, c)
	c.of.mu.Unlock()
	return c.Conn.Close()
}

// check closes the connections without data for silence, unless the backend responds meanwhile. Only one check runs at
// a time.
func (l *links) check(answers func(context.Context) bool, silence time.Duration) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.closed || l.stop != nil || len(l.open) == 0 {
		return
	}
	ctx, stop := context.WithCancel(context.Background())
	began := time.Now()
	l.stop = stop
	l.checks.Go(recovery.Func("grpc backend check", func() {
		defer l.checked()
		within, cancel := context.WithTimeout(ctx, silence)
		defer cancel()
		if answers(within) {
			return
		}
		if <-within.Done(); ctx.Err() == nil {
			l.drop(began)
		}
	}))
}

// checked ends a check.
func (l *links) checked() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.stop()
	l.stop = nil
}

// drop closes the connections without data since a time.
func (l *links) drop(since time.Time) {
	l.mu.Lock()
	var silent []*watched
	for c := range l.open {
		if c.read.Load() < since.UnixNano() {
			silent = append(silent, c)
		}
	}
	l.mu.Unlock()
	for _, c := range silent {
		_ = c.Close() // the channel treats it as a lost connection
	}
}

// close ends the check in progress, and waits for it.
func (l *links) close() {
	l.mu.Lock()
	l.closed = true
	if l.stop != nil {
		l.stop()
	}
	l.mu.Unlock()
	l.checks.Wait()
}

// answers reports whether the backend starts HTTP/2 on a new connection before ctx ends.
func (b *backend) answers(ctx context.Context) bool {
	conn, err := grpc.NewClient(target(b.addr), b.creds, grpc.WithContextDialer(dial),
		grpc.WithUserAgent(buildinfo.UserAgent("capgate-health")), grpc.WithDisableServiceConfig(),
		grpc.WithIdleTimeout(0))
	if err != nil {
		return false
	}
	defer conn.Close()
	for conn.Connect(); ; {
		state := conn.GetState()
		if state == connectivity.Ready || !conn.WaitForStateChange(ctx, state) {
			return state == connectivity.Ready
		}
	}
}
