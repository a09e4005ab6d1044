package redisstore

import (
	"context"
	"errors"
	"net"
	"os"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/capgate/capgate/internal/lib/backoff"
)

// A process that lacks CPU sees replies late that Redis sent in time. Such a delay says nothing about Redis:
//
//   - A reply that has arrived is read, also after the deadline (promptConn).
//   - A command that could not be sent before its deadline was delayed by the process (promptConn).
//   - A timeout during which goroutines of the process waited long for a CPU is in doubt (stalls).
//
// The breaker trips on doubtful timeouts only if there has been no answer for maxDoubt timeouts.

const (
	stallEvery = 25 * time.Millisecond
	stallPart  = 4 // a timeout is in doubt if the process stalled for this part of it
	maxDoubt   = 8 // timeouts without an answer, after which doubts do not count
	readAgain  = time.Millisecond
)

// stalls measures how long goroutines of the process wait until they run.
type stalls struct {
	epoch time.Time
	sum   atomic.Int64 // nanoseconds
	due   atomic.Int64 // since epoch, of the next wake-up
}

func newStalls() *stalls {
	s := &stalls{epoch: time.Now()}
	s.due.Store(int64(stallEvery))
	return s
}

// run measures until ctx ends.
func (s *stalls) run(ctx context.Context) {
	for backoff.Sleep(ctx, stallEvery) {
		late := s.late()
		s.due.Store(int64(time.Since(s.epoch) + stallEvery))
		s.sum.Add(late)
	}
}

func (s *stalls) late() int64 { return max(int64(time.Since(s.epoch))-s.due.Load(), 0) }

// total returns the sum of all delays since the start, including a current one.
func (s *stalls) total() time.Duration { return time.Duration(s.sum.Load() + s.late()) }

// delayedError is a timeout that the process itself may have caused.
type delayedError struct{ error }

func (e *delayedError) Unwrap() error { return e.error }

// delayed reports whether a timeout may have been caused by the process; before is Config.Stalled at its start.
func (s *Store) delayed(err error, before time.Duration) bool {
	var known *delayedError
	if errors.As(err, &known) {
		return true
	}
	var timeout net.Error // context.DeadlineExceeded is one
	return (errors.As(err, &timeout) && timeout.Timeout() || errors.Is(err, redis.ErrPoolTimeout)) &&
		s.cfg.Stalled()-before >= s.cfg.Timeout/stallPart
}

// promptConn is a connection whose timeouts are Redis's alone. The runtime looks at timers before it looks at sockets:
// after a stall of the process a deadline passes although the reply has arrived.
type promptConn struct {
	net.Conn
	deadline time.Time // of writes; used by one goroutine at a time, as the client library does
}

// prompt keeps the raw connection, by which the client library looks whether an idle connection has ended.
func prompt(conn net.Conn) net.Conn {
	p := &promptConn{Conn: conn}
	if raw, ok := conn.(syscall.Conn); ok {
		return struct {
			*promptConn
			syscall.Conn
		}{p, raw}
	}
	return p
}

// Read implements net.Conn.
func (c *promptConn) Read(p []byte) (int, error) {
	n, err := c.Conn.Read(p)
	if n > 0 || !errors.Is(err, os.ErrDeadlineExceeded) {
		return n, err
	}
	if c.SetReadDeadline(time.Now().Add(readAgain)) != nil {
		return n, err
	}
	if n, again := c.Conn.Read(p); n > 0 || !errors.Is(again, os.ErrDeadlineExceeded) {
		return n, again
	}
	return n, err
}

// SetDeadline implements net.Conn.
func (c *promptConn) SetDeadline(t time.Time) error {
	c.deadline = t
	return c.Conn.SetDeadline(t)
}

// SetWriteDeadline implements net.Conn.
func (c *promptConn) SetWriteDeadline(t time.Time) error {
	c.deadline = t
	return c.Conn.SetWriteDeadline(t)
}

// Write implements net.Conn.
func (c *promptConn) Write(p []byte) (int, error) {
	over := !c.deadline.IsZero() && !time.Now().Before(c.deadline)
	n, err := c.Conn.Write(p)
	if over && n == 0 && errors.Is(err, os.ErrDeadlineExceeded) {
		err = &delayedError{err}
	}
	return n, err
}
