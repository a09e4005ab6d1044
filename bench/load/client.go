package load

import (
	"fmt"
	"time"

	"github.com/capgate/capgate/bench/h2"
	"github.com/capgate/capgate/bench/loop"
)

// caller is one connection over HTTP/2 or HTTP/1.1.
type caller interface {
	loop.Handler
	attach(*loop.Conn)
	start(now time.Time)
	settled() (streams uint32, ok bool) // whether calls may start, and the peer's stream limit
	limit() int                         // open calls that the run allows on it
	open() int                          // open calls
}

func newCaller(r *run) caller {
	if j := r.cfg.JSON; j != nil && j.HTTP1 {
		return newHTTP1(r)
	}
	return newClient(r)
}

// client is one HTTP/2 connection.
type client struct {
	run      *run
	socket   *loop.Conn
	session  *h2.Session
	fields   []int
	inflight int
	spare    []*pending
}

func newClient(r *run) *client {
	c := &client{run: r}
	c.session = h2.NewSession(h2.Config{
		Client: true, StreamWindow: r.cfg.StreamWindow, ConnWindow: r.cfg.ConnWindow,
	}, c)
	c.fields = r.requests.fields(c.session)
	return c
}

// start starts a call.
func (c *client) start(now time.Time) {
	body, timeout := c.run.requests.take()
	p := &pending{}
	if n := len(c.spare); n > 0 {
		p, c.spare = c.spare[n-1], c.spare[:n-1]
	}
	*p = pending{started: now}
	c.session.Open(c.fields, timeout, body).Value = p
	c.inflight++
	c.run.inflight++
	c.socket.Flush()
}

func (c *client) attach(s *loop.Conn) { c.socket = s }

func (c *client) settled() (streams uint32, ok bool) { return c.session.Settled() }

func (c *client) open() int { return c.inflight }

// limit returns the number of streams that may be open on the connection.
func (c *client) limit() int {
	n, _ := c.session.Settled()
	return min(c.run.cfg.Streams, int(n))
}

// Read implements loop.Handler.
func (c *client) Read(p []byte) error { return c.session.Feed(p) }

// Output implements loop.Handler.
func (c *client) Output() (*[]byte, bool) {
	more := c.session.Pump()
	return &c.session.Out, more
}

// Closed implements loop.Handler.
func (c *client) Closed(err error) {
	c.run.fail(fmt.Errorf("connection lost: %w", err))
}

// Headers implements h2.Events.
func (c *client) Headers(st *h2.Stream, h h2.Headers, end bool) error {
	p, ok := st.Value.(*pending)
	if !ok {
		return fmt.Errorf("stream %d has no call", st.ID)
	}
	if !p.http {
		if h.Status != "200" {
			c.run.rejected(fmt.Sprintf("HTTP status %q, grpc-status %q %s", h.Status, h.GRPCStatus, h.GRPCMessage))
			if end {
				c.ended(p, false)
			}
			return nil
		}
		p.http = true
	}
	if !end {
		return nil
	}
	good := h.GRPCStatus == "0" || c.run.cfg.JSON != nil
	switch {
	case good:
	case c.run.cfg.Flood && (h.GRPCStatus == "8" || h.GRPCStatus == "14"): // RESOURCE_EXHAUSTED, UNAVAILABLE
		c.run.refused++
	default:
		c.run.bad(fmt.Sprintf("grpc-status %q %s", h.GRPCStatus, h.GRPCMessage))
	}
	c.ended(p, good)
	return nil
}

// Data implements h2.Events.
func (c *client) Data(st *h2.Stream, d []byte, end bool) error {
	c.run.bytes += int64(len(d))
	p, ok := st.Value.(*pending)
	if !ok {
		return fmt.Errorf("stream %d has no call", st.ID)
	}
	if !p.answers && len(d) > 0 {
		p.answers = true
		c.run.answered++
	}
	switch {
	case !end:
	case c.run.cfg.JSON != nil:
		c.ended(p, p.http)
	default:
		c.run.bad("ended without trailers")
		c.ended(p, false)
	}
	return nil
}

// Reset implements h2.Events.
func (c *client) Reset(st *h2.Stream, code uint32) error {
	if c.run.cfg.Flood {
		c.run.refused++
	} else {
		c.run.bad(fmt.Sprintf("stream reset with code %d", code))
	}
	if p, ok := st.Value.(*pending); ok {
		c.ended(p, false)
	}
	return nil
}

// ended counts a call, and in a closed loop starts the next one.
func (c *client) ended(p *pending, good bool) {
	now := time.Now()
	c.inflight--
	c.run.inflight--
	if good {
		c.run.done(now.Sub(p.started))
	}
	c.spare = append(c.spare, p)
	if c.run.cfg.Mode == Closed && !c.run.stopping {
		c.start(now)
	}
}
