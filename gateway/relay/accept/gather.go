package accept

import (
	"net"
	"sync"
)

// Gatherer is the socket of a TLS connection, which makes a write for each record. It collects them into fewer ones.
type Gatherer struct {
	net.Conn
	mu      sync.Mutex // the reading goroutine writes too: TLS alerts and key updates
	holding bool
	buf     *[GatherBytes]byte // nil means that nothing was collected
	n       int
}

// GatherBytes is the number of bytes that a Gatherer collects at most. It has their memory only from Hold to Flush.
const GatherBytes = 32 << 10

var gathered = sync.Pool{New: func() any { return new([GatherBytes]byte) }}

// Hold collects what is written, until Flush.
func (g *Gatherer) Hold() {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.holding = true
}

// Flush writes what was collected.
func (g *Gatherer) Flush() error {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.holding = false
	err := g.flush()
	if g.buf != nil {
		gathered.Put(g.buf)
		g.buf = nil
	}
	return err
}

// flush writes what was collected. mu must be held.
func (g *Gatherer) flush() error {
	n := g.n
	if g.n = 0; n == 0 {
		return nil
	}
	_, err := g.Conn.Write(g.buf[:n])
	return err
}

// Write implements net.Conn.
func (g *Gatherer) Write(p []byte) (int, error) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if !g.holding {
		return g.Conn.Write(p)
	}
	if g.n+len(p) > GatherBytes {
		if err := g.flush(); err != nil {
			return 0, err
		}
		if len(p) > GatherBytes {
			return g.Conn.Write(p)
		}
	}
	if g.buf == nil {
		g.buf = gathered.Get().(*[GatherBytes]byte)
	}
	g.n += copy(g.buf[g.n:], p)
	return len(p), nil
}
