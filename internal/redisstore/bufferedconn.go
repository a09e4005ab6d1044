package redisstore

import (
	"net"
	"sync"
	"time"
)

// bufferedConn is a pipe in memory whose writes do not wait for its reader. A pipe has no buffer: a server that
// answers the first commands of a pipeline would stop reading until the client, which is still writing, reads the
// answers. The buffer is bounded by the size of one pipeline.
type bufferedConn struct {
	net.Conn

	mu      sync.Mutex
	more    sync.Cond
	pending []byte
	err     error // the error of further writes
	done    chan struct{}
}

func newBufferedConn(pipe net.Conn) *bufferedConn {
	c := &bufferedConn{Conn: pipe, done: make(chan struct{})}
	c.more.L = &c.mu
	go c.pump()
	return c
}

// Write copies p and returns at once.
func (c *bufferedConn) Write(p []byte) (int, error) {
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
func (c *bufferedConn) Close() error {
	c.end(net.ErrClosed)
	err := c.Conn.Close()
	<-c.done
	return err
}

// SetDeadline sets the read deadline: writes do not block.
func (c *bufferedConn) SetDeadline(t time.Time) error { return c.SetReadDeadline(t) }

// SetWriteDeadline does nothing.
func (c *bufferedConn) SetWriteDeadline(time.Time) error { return nil }

func (c *bufferedConn) end(err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.err == nil {
		c.err = err
	}
	c.more.Signal()
}

// pump forwards written data until either side ends.
func (c *bufferedConn) pump() {
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
