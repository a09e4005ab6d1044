package redisstore

import (
	"net"
	"sync"
	"time"
)

// eagerConn is a pipe in memory whose writer need not wait for its reader. A pipe has
// no room, and a server that answers the first commands of a pipeline reads no further
// until somebody reads the answers: the client, which is still writing. What waits is what
// one pipeline says.
type eagerConn struct {
	net.Conn

	mu      sync.Mutex
	more    sync.Cond
	pending []byte
	err     error // the error of further writes
	done    chan struct{}
}

func newEagerConn(pipe net.Conn) *eagerConn {
	c := &eagerConn{Conn: pipe, done: make(chan struct{})}
	c.more.L = &c.mu
	go c.pump()
	return c
}

// Write copies p and returns at once.
func (c *eagerConn) Write(p []byte) (int, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.err != nil {
		return 0, c.err
	}
	c.pending = append(c.pending, p...)
	c.more.Signal()
	return len(p), nil
}

// Close ends the pipe and waits for the pump.
func (c *eagerConn) Close() error {
	c.end(net.ErrClosed)
	err := c.Conn.Close()
	<-c.done
	return err
}

// SetDeadline sets the read deadline: writes do not block.
func (c *eagerConn) SetDeadline(t time.Time) error { return c.SetReadDeadline(t) }

// SetWriteDeadline does nothing.
func (c *eagerConn) SetWriteDeadline(time.Time) error { return nil }

func (c *eagerConn) end(err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.err == nil {
		c.err = err
	}
	c.more.Signal()
}

// pump forwards written data until either side ends.
func (c *eagerConn) pump() {
	defer close(c.done)
	var p []byte
	for {
		c.mu.Lock()
		for len(c.pending) == 0 && c.err == nil {
			c.more.Wait()
		}
		if c.err != nil {
			c.mu.Unlock()
			return
		}
		p, c.pending = c.pending, p[:0]
		c.mu.Unlock()
		if _, err := c.Conn.Write(p); err != nil {
			c.end(err)
		}
	}
}
