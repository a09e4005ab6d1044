package relay

import (
	"context"
	"net"
	"slices"
	"sync"
)

// gate lets so many TLS handshakes compute at once, fewer than there are processors: a flood of them must not take
// all. The newest goes first: those that wait longest are the likeliest to have been given up. A handshake that waits
// for its client is not in.
type gate struct {
	mu      sync.Mutex
	free    int
	waiting []chan struct{}
}

// enter waits until there is room. Its error is that of ctx.
func (g *gate) enter(ctx context.Context) error {
	g.mu.Lock()
	if g.free > 0 {
		g.free--
		g.mu.Unlock()
		return nil
	}
	mine := make(chan struct{})
	g.waiting = append(g.waiting, mine)
	g.mu.Unlock()
	select {
	case <-mine:
		return nil
	case <-ctx.Done():
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	if i := slices.Index(g.waiting, mine); i >= 0 {
		g.waiting = slices.Delete(g.waiting, i, i+1)
	} else {
		g.pass() // it was let in meanwhile
	}
	return ctx.Err()
}

// leave makes room for another.
func (g *gate) leave() {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.pass()
}

func (g *gate) pass() {
	if n := len(g.waiting); n > 0 {
		close(g.waiting[n-1])
		g.waiting = g.waiting[:n-1]
		return
	}
	g.free++
}

// gated is a connection whose handshake passes a gate. It is used by one goroutine until open.
type gated struct {
	net.Conn
	gate *gate
	ctx  context.Context //nolint:containedctx // of the handshake, which reads and writes without
	in   bool
	open bool
}

func (c *gated) enter() error {
	err := c.gate.enter(c.ctx)
	c.in = err == nil
	return err
}

func (c *gated) leave() {
	if c.in {
		c.in = false
		c.gate.leave()
	}
}

// Read implements net.Conn.
func (c *gated) Read(p []byte) (int, error) { return c.outside(p, c.Conn.Read) }

// Write implements net.Conn.
func (c *gated) Write(p []byte) (int, error) { return c.outside(p, c.Conn.Write) }

func (c *gated) outside(p []byte, do func([]byte) (int, error)) (int, error) {
	if c.open || !c.in {
		return do(p)
	}
	c.leave()
	n, err := do(p)
	if entered := c.enter(); err == nil {
		err = entered
	}
	return n, err
}

// CloseWrite is for who wants to say that all is said.
func (c *gated) CloseWrite() error {
	if half, ok := c.Conn.(interface{ CloseWrite() error }); ok {
		return half.CloseWrite()
	}
	return c.Close()
}
