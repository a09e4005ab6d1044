package accept

import (
	"container/list"
	"context"
	"errors"
	"net/netip"
	"slices"
	"sync"
)

// handshakeLimit limits the number of TLS handshakes that compute at once to less than the number of processors, so
// that a flood of them cannot use all. Networks take turns, so that a flood of one network does not block the others.
// The newest goes first, among networks that have had no turn and within a network, because clients that wait longest
// have most likely given up. A handshake that waits for its client holds no slot. At most most handshakes of a limited
// network wait: a newer one ends the oldest.
type handshakeLimit struct {
	mu      sync.Mutex
	free    int
	most    int // 0 means no limit
	waiting int // number of waiting handshakes
	// number of handshakes ended because of the limit of their network, since the start
	dropped   int64
	next      list.List                      // of *handshakes, never empty; the front has the next turn
	byNetwork map[netip.Prefix]*list.Element // elements of next by network
}

// handshakes is a network's queue of waiting handshakes. All networks without a limit count as one.
type handshakes struct {
	network netip.Prefix
	waiting []chan bool // newest last; receives false if it is ended
}

// errHandshakes is the error of an ended handshake.
var errHandshakes = errors.New("too many TLS handshakes of its network wait for a processor")

// acquire waits for a slot. Its error is that of ctx, or errHandshakes.
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

// cancel removes a waiting handshake. It returns false if that is no longer waiting.
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

// removeEmpty removes a network without waiting handshakes.
func (l *handshakeLimit) removeEmpty(e *list.Element) {
	if h := e.Value.(*handshakes); len(h.waiting) == 0 {
		l.next.Remove(e)
		delete(l.byNetwork, h.network)
	}
}

// release releases a slot.
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

// stats returns the number of waiting handshakes, and of ended ones.
func (l *handshakeLimit) stats() (waiting int, dropped int64) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.waiting, l.dropped
}

// handshakeConn is a connection whose handshake is limited. It is used by one goroutine until done.
type handshakeConn struct {
	Transport
	limit    *handshakeLimit
	peer     *Peer
	ctx      context.Context //nolint:containedctx // of the handshake, whose reads and writes have none
	acquired bool
	done     bool
	tls      bool   // its first bytes are those of TLS
	seen     []byte // the bytes read, if they are not those of TLS

	read    int64 // bytes from the client
	charged int64 // to peer.memory, beyond handshakeBytes
	kept    int64 // to peer.memory, beyond TLSBytes, for the longest record
	records records
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
	n, err := c.unlimited(p, c.Transport.Read)
	c.records.add(p[:n])
	if err := c.chargeRecords(); err != nil {
		return 0, err
	}
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
func (c *handshakeConn) Write(p []byte) (int, error) { return c.unlimited(p, c.Transport.Write) }

// unlimited performs an I/O operation without holding a slot.
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

// CloseWrite ends the output only, if the connection supports that.
func (c *handshakeConn) CloseWrite() error {
	if half, ok := c.Conn.(interface{ CloseWrite() error }); ok {
		return half.CloseWrite()
	}
	return c.Close()
}
