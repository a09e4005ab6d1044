package relay

import (
	"container/list"
	"context"
	"errors"
	"net"
	"net/netip"
	"slices"
	"sync"
)

// gate lets so many TLS handshakes compute at once, fewer than there are processors: a flood of them must not take
// all. Networks take turns, so that one network's flood keeps no other out. The newest goes first, of the networks that
// have had no turn and within a network: those that wait longest are the likeliest to have been given up. A handshake
// that waits for its client is not in. Of a network that is bounded no more than most wait: a newer one takes the place
// of the oldest, which is ended.
type gate struct {
	mu      sync.Mutex
	free    int
	most    int                            // 0: any number
	all     int                            // that wait
	dropped int64                          // that were ended as there were too many of their network, since the start
	next    list.List                      // of *handshakes, none of them empty; the front's turn is next
	of      map[netip.Prefix]*list.Element // the same, by network
}

// handshakes are those that wait of one network; all whose network is not bounded count as one.
type handshakes struct {
	network netip.Prefix
	waiting []chan bool // the newest last; false: it is ended
}

// errHandshakes ends a handshake.
var errHandshakes = errors.New("too many TLS handshakes of its network wait for a processor")

// enter waits until there is room. Its error is that of ctx, or errHandshakes.
func (g *gate) enter(ctx context.Context, network netip.Prefix) error {
	g.mu.Lock()
	if g.free > 0 {
		g.free--
		g.mu.Unlock()
		return nil
	}
	mine := make(chan bool, 1)
	g.add(network, mine)
	g.mu.Unlock()
	select {
	case in := <-mine:
		if !in {
			return errHandshakes
		}
		return nil
	case <-ctx.Done():
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	if !g.drop(network, mine) && <-mine {
		g.pass() // it was let in meanwhile
	}
	return ctx.Err()
}

func (g *gate) add(network netip.Prefix, one chan bool) {
	e := g.of[network]
	if e == nil {
		if g.of == nil {
			g.of = map[netip.Prefix]*list.Element{}
		}
		e = g.next.PushFront(&handshakes{network: network})
		g.of[network] = e
	}
	h := e.Value.(*handshakes)
	if network.IsValid() && g.most > 0 && len(h.waiting) >= g.most {
		h.waiting[0] <- false
		h.waiting = slices.Delete(h.waiting, 0, 1)
		g.dropped++
		g.all--
	}
	h.waiting = append(h.waiting, one)
	g.all++
}

// drop takes one out that waits. It returns false when that one does not wait any more.
func (g *gate) drop(network netip.Prefix, one chan bool) bool {
	e := g.of[network]
	if e == nil {
		return false
	}
	h := e.Value.(*handshakes)
	i := slices.Index(h.waiting, one)
	if i < 0 {
		return false
	}
	h.waiting = slices.Delete(h.waiting, i, i+1)
	g.all--
	g.tidy(e)
	return true
}

// tidy forgets a network of which none waits.
func (g *gate) tidy(e *list.Element) {
	if h := e.Value.(*handshakes); len(h.waiting) == 0 {
		g.next.Remove(e)
		delete(g.of, h.network)
	}
}

// leave makes room for another.
func (g *gate) leave() {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.pass()
}

func (g *gate) pass() {
	e := g.next.Front()
	if e == nil {
		g.free++
		return
	}
	h := e.Value.(*handshakes)
	last := len(h.waiting) - 1
	h.waiting[last] <- true
	h.waiting[last] = nil
	h.waiting = h.waiting[:last]
	g.all--
	g.next.MoveToBack(e)
	g.tidy(e)
}

// stats tells how many wait, and how many were ended.
func (g *gate) stats() (waiting int, dropped int64) {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.all, g.dropped
}

// gated is a connection whose handshake passes a gate. It is used by one goroutine until open.
type gated struct {
	net.Conn
	gate *gate
	peer *Peer
	ctx  context.Context //nolint:containedctx // of the handshake, which reads and writes without
	in   bool
	open bool
	tls  bool   // it begins as TLS does
	seen []byte // what came, if it does not begin as TLS does

	read    int64 // from the client
	charged int64 // to peer.hold, beyond handshakeCost
}

func (c *gated) enter() error {
	err := c.gate.enter(c.ctx, c.peer.network)
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
func (c *gated) Read(p []byte) (int, error) {
	n, err := c.outside(p, c.Conn.Read)
	if c.open {
		return n, err
	}
	c.read += int64(n)
	if more := handshakeCopies*max(c.read-handshakeFree, 0) - c.charged; more > 0 {
		if !c.peer.hold.add(more) {
			return 0, errNoRoom
		}
		c.charged += more
	}
	if n > 0 && !c.tls {
		if c.tls = len(c.seen) == 0 && p[0] == handshakeRecord; !c.tls {
			c.seen = append(c.seen, p[:n]...)
		}
	}
	return n, err
}

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
