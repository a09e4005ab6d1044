package accept

import (
	"container/list"
	"context"
	"errors"
	"net"
	"net/netip"
	"slices"
	"sync"
)

// handshakeLimit bounds how many TLS handshakes compute at once to fewer than there are processors: a flood of them
// must not take all. Networks take turns, so that one network's flood keeps no other out. The newest goes first, of
// the networks that have had no turn and within a network: those that wait longest are the likeliest to have been
// given up. A handshake that waits for its client holds no place. Of a network that is bounded no more than most wait:
// a newer one replaces the oldest, which is ended.
type handshakeLimit struct {
	mu      sync.Mutex
	free    int
	most    int // 0 means any number
	waiting int // handshakes
	// handshakes ended as there were too many of their network, since the start
	dropped   int64
	next      list.List                      // of *handshakes, none of them empty; the front's turn is next
	byNetwork map[netip.Prefix]*list.Element // the same, by network
}

// handshakes are those of one network that wait. All whose network is not bounded count as one network.
type handshakes struct {
	network netip.Prefix
	waiting []chan bool // the newest last; false: it is ended
}

// errHandshakes ends a handshake.
var errHandshakes = errors.New("too many TLS handshakes of its network wait for a processor")

// acquire waits until a place is free. Its error is that of ctx, or errHandshakes.
func (l *handshakeLimit) acquire(ctx context.Context, network netip.Prefix) error {
	l.mu.Lock()
	if l.free > 0 {
		l.free--
		l.mu.Unlock()
		return nil
	}
	mine := make(chan bool, 1)
	l.add(network, mine)
	l.mu.Unlock()
	select {
	case acquired := <-mine:
		if !acquired {
			return errHandshakes
		}
		return nil
	case <-ctx.Done():
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if !l.cancel(network, mine) && <-mine {
		l.pass() // it was acquired meanwhile
	}
	return ctx.Err()
}

func (l *handshakeLimit) add(network netip.Prefix, one chan bool) {
	e := l.byNetwork[network]
	if e == nil {
		if l.byNetwork == nil {
			l.byNetwork = map[netip.Prefix]*list.Element{}
		}
		e = l.next.PushFront(&handshakes{network: network})
		l.byNetwork[network] = e
	}
	h := e.Value.(*handshakes)
	if network.IsValid() && l.most > 0 && len(h.waiting) >= l.most {
		h.waiting[0] <- false
		h.waiting = slices.Delete(h.waiting, 0, 1)
		l.dropped++
		l.waiting--
	}
	h.waiting = append(h.waiting, one)
	l.waiting++
}

// cancel removes one that waits. It returns false if that one does not wait any more.
func (l *handshakeLimit) cancel(network netip.Prefix, one chan bool) bool {
	e := l.byNetwork[network]
	if e == nil {
		return false
	}
	h := e.Value.(*handshakes)
	i := slices.Index(h.waiting, one)
	if i < 0 {
		return false
	}
	h.waiting = slices.Delete(h.waiting, i, i+1)
	l.waiting--
	l.removeEmpty(e)
	return true
}

// removeEmpty removes a network of which no handshake waits.
func (l *handshakeLimit) removeEmpty(e *list.Element) {
	if h := e.Value.(*handshakes); len(h.waiting) == 0 {
		l.next.Remove(e)
		delete(l.byNetwork, h.network)
	}
}

// release gives a place back.
func (l *handshakeLimit) release() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.pass()
}

func (l *handshakeLimit) pass() {
	e := l.next.Front()
	if e == nil {
		l.free++
		return
	}
	h := e.Value.(*handshakes)
	last := len(h.waiting) - 1
	h.waiting[last] <- true
	h.waiting[last] = nil
	h.waiting = h.waiting[:last]
	l.waiting--
	l.next.MoveToBack(e)
	l.removeEmpty(e)
}

// stats returns how many handshakes wait, and how many were ended.
func (l *handshakeLimit) stats() (waiting int, dropped int64) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.waiting, l.dropped
}

// handshakeConn is a connection whose handshake is limited. It is used by one goroutine until done.
type handshakeConn struct {
	net.Conn
	limit    *handshakeLimit
	peer     *Peer
	ctx      context.Context //nolint:containedctx // of the handshake, which reads and writes without
	acquired bool
	done     bool
	tls      bool   // it begins as TLS does
	seen     []byte // what was read, if it does not begin as TLS does

	read    int64 // bytes from the client
	charged int64 // to peer.memory, beyond handshakeBytes
}

func (c *handshakeConn) acquire() error {
	err := c.limit.acquire(c.ctx, c.peer.network)
	c.acquired = err == nil
	return err
}

func (c *handshakeConn) release() {
	if c.acquired {
		c.acquired = false
		c.limit.release()
	}
}

// Read implements net.Conn.
func (c *handshakeConn) Read(p []byte) (int, error) {
	n, err := c.unlimited(p, c.Conn.Read)
	if c.done {
		return n, err
	}
	c.read += int64(n)
	if more := handshakeCopies*max(c.read-handshakeFree, 0) - c.charged; more > 0 {
		if !c.peer.memory.add(more) {
			return 0, ErrNoMemory
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
func (c *handshakeConn) Write(p []byte) (int, error) { return c.unlimited(p, c.Conn.Write) }

// unlimited waits for the client without a place.
func (c *handshakeConn) unlimited(p []byte, do func([]byte) (int, error)) (int, error) {
	if c.done || !c.acquired {
		return do(p)
	}
	c.release()
	n, err := do(p)
	if acquired := c.acquire(); err == nil {
		err = acquired
	}
	return n, err
}

// CloseWrite ends the output alone, where the connection can do that.
func (c *handshakeConn) CloseWrite() error {
	if half, ok := c.Conn.(interface{ CloseWrite() error }); ok {
		return half.CloseWrite()
	}
	return c.Close()
}
