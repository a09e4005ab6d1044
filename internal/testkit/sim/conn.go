package sim

import (
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"strings"
	"sync"
	"time"
)

// Wire describes one kind of connection.
type Wire struct {
	// Describe formats bytes for the trace; nil selects their number.
	Describe func([]byte) string
	// Cut delivers bytes in pieces of any size. Otherwise, the bytes of one Write arrive together.
	Cut bool
	// Buffer is the number of bytes in flight per direction, above which Write waits; 0 means no limit.
	Buffer int
	// Arrived is called on the driver's goroutine with the bytes that arrive at the server; optional.
	Arrived func(server *Conn, p []byte)
}

// Conn is one end of a virtual connection.
type Conn struct {
	w    *Simulation
	wire *Wire
	name string // name of the direction from this end to its peer
	peer *Conn
	site *Site
	// number is shared by both ends: it counts the connections of the site.
	number int

	mu       *sync.Mutex // shared by both ends
	changed  sync.Cond
	received []byte
	err      error // error of further reads
	broken   error // error of further writes
	read     deadline
	write    deadline

	sent    [][]byte // chunks in flight to the peer; nil marks the end
	bytes   int      // total size of sent
	pending *Event   // arrival of the first chunk
	last    string   // description of the last written chunk
	cause   string   // its cause
}

type deadline struct {
	at    time.Time
	timer *time.Timer
}

func (d *deadline) passed() bool { return !d.at.IsZero() && !time.Now().Before(d.at) }

// ErrReset is the error of a connection that was reset.
var ErrReset = errors.New("sim: connection reset by peer")

// newPipe returns the two ends of a connection. Its events belong to a site.
func newPipe(site *Site, wire *Wire, server string) (c, s *Conn) {
	n := site.next()
	c = &Conn{w: site.w, wire: wire, name: site.name + " → " + server, site: site, number: n}
	s = &Conn{w: site.w, wire: wire, name: site.name + " ← " + server, site: site, number: n}
	mu := &sync.Mutex{}
	c.peer, s.peer, c.mu, s.mu, c.changed.L, s.changed.L = s, c, mu, mu, mu, mu
	return c, s
}

// Read implements net.Conn.
func (c *Conn) Read(p []byte) (int, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for {
		switch {
		case c.read.passed():
			return 0, os.ErrDeadlineExceeded
		case len(c.received) > 0:
			n := copy(p, c.received)
			c.received = c.received[n:]
			return n, nil
		case c.err != nil:
			return 0, c.err
		}
		c.changed.Wait()
	}
}

// Write implements net.Conn.
func (c *Conn) Write(p []byte) (int, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for {
		switch {
		case c.broken != nil:
			return 0, c.broken
		case c.write.passed():
			return 0, os.ErrDeadlineExceeded
		case c.wire.Buffer == 0 || c.bytes == 0 || c.bytes+len(p) <= c.wire.Buffer:
			c.send(append([]byte{}, p...))
			return len(p), nil
		}
		c.changed.Wait()
	}
}

// Close implements net.Conn. Written bytes still arrive.
func (c *Conn) Close() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.broken == nil {
		c.send(nil)
	}
	c.fail(net.ErrClosed, net.ErrClosed)
	return nil
}

// send appends a chunk to those in flight. The caller holds mu.
func (c *Conn) send(p []byte) {
	c.sent, c.bytes, c.cause = append(c.sent, p), c.bytes+len(p), c.w.reason()
	if c.pending == nil {
		c.expect()
	}
}

// expect adds the event of the next arrival. The caller holds mu.
func (c *Conn) expect() {
	c.pending = nil
	if len(c.sent) == 0 {
		return
	}
	p, what := c.sent[0], "end"
	if p != nil {
		if what = fmt.Sprintf("%d bytes", len(p)); c.wire.Describe != nil {
			what = c.wire.Describe(p)
		}
		c.last = what
	}
	at := c.site.arrives()
	c.pending = &Event{Key: c.name + " " + what, order: c.context() + string(p), cause: c.cause,
		conn: c.number, run: c.arrive, held: func() bool { return c.site.holds() || c.w.Now() < at }}
	c.w.add(c.pending)
}

// context distinguishes the connections of one site by their use.
func (c *Conn) context() string { return strings.Join([]string{c.peer.last, c.last}, "\x00") }

// use returns the last use of the connection.
func (c *Conn) use() string {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.context()
}

// arrive delivers the first chunk, or part of it.
func (c *Conn) arrive() {
	c.mu.Lock()
	if len(c.sent) == 0 {
		c.mu.Unlock()
		return
	}
	p := c.sent[0]
	if c.wire.Cut && len(p) > 1 {
		p = p[:1+c.w.cut(len(p))]
	}
	if len(p) < len(c.sent[0]) {
		c.sent[0] = c.sent[0][len(p):]
	} else {
		c.sent = c.sent[1:]
	}
	c.bytes -= len(p)
	c.expect()
	c.changed.Broadcast()
	c.mu.Unlock()
	to := c.peer
	if to.wire.Arrived != nil && to.isServer() && p != nil {
		to.wire.Arrived(to, p)
	}
	to.mu.Lock()
	defer to.mu.Unlock()
	if to.err != nil {
		return
	}
	if to.received = append(to.received, p...); p == nil {
		to.err = io.EOF
	}
	to.changed.Broadcast()
}

func (c *Conn) isServer() bool { return strings.Contains(c.name, " ← ") }

// Reset breaks the connection for both ends. Bytes in flight are lost.
func (c *Conn) Reset() {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, end := range []*Conn{c, c.peer} {
		end.sent, end.bytes = nil, 0
		if end.pending != nil {
			c.w.remove(end.pending)
			end.pending = nil
		}
		end.received = nil
		end.fail(ErrReset, ErrReset)
	}
}

// fail ends further reads and writes. The caller holds mu.
func (c *Conn) fail(read, write error) {
	if c.broken == nil {
		c.broken = write
	}
	if c.err == nil || read == net.ErrClosed {
		c.err = read
	}
	c.site.forget(c)
	c.changed.Broadcast()
}

// SetDeadline implements net.Conn.
func (c *Conn) SetDeadline(t time.Time) error {
	_ = c.SetReadDeadline(t)
	return c.SetWriteDeadline(t)
}

// SetReadDeadline implements net.Conn.
func (c *Conn) SetReadDeadline(t time.Time) error { return c.set(&c.read, t) }

// SetWriteDeadline implements net.Conn.
func (c *Conn) SetWriteDeadline(t time.Time) error { return c.set(&c.write, t) }

func (c *Conn) set(d *deadline, t time.Time) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if d.timer != nil {
		d.timer.Stop()
	}
	d.at, d.timer = t, nil
	if !t.IsZero() {
		d.timer = time.AfterFunc(time.Until(t), func() {
			c.mu.Lock()
			defer c.mu.Unlock()
			c.changed.Broadcast()
		})
	}
	c.changed.Broadcast()
	return nil
}

type addr string

func (addr) Network() string  { return "sim" }
func (a addr) String() string { return string(a) }

// LocalAddr implements net.Conn.
func (c *Conn) LocalAddr() net.Addr { return addr("local:1") }

// RemoteAddr implements net.Conn.
func (c *Conn) RemoteAddr() net.Addr { return addr("remote:1") }

// cut returns a random number below n.
func (w *Simulation) cut(n int) int { return w.rnd.IntN(n) }
