package backend

import (
	"errors"
	"io"

	"golang.org/x/sys/unix"

	"github.com/capgate/capgate/bench/h2"
	"github.com/capgate/capgate/bench/loop"
)

// conn is a client connection.
type conn struct {
	backend *Backend
	socket  *loop.Conn
	session *h2.Session
	fields  []int // response fields of a successful call
	unknown []int // response fields of UNIMPLEMENTED

	calls []*call // free list
}

// call is a request that has not been answered yet.
type call struct {
	method method
	head   []byte // start of the body, until the first field is complete
	work   h2.Work
	known  bool
}

type method uint8

const (
	unknown method = iota
	reads          // answered already, from the request's first field
	upload
	health
)

func methodOf(path string) method {
	switch path {
	case h2.PathInvoke, h2.PathStream, h2.PathDownload:
		return reads
	case h2.PathUpload:
		return upload
	case h2.PathHealth:
		return health
	}
	return unknown
}

// Attach sets the socket of the connection.
func (c *conn) Attach(s *loop.Conn) { c.socket = s }

// Read implements loop.Handler.
func (c *conn) Read(p []byte) error { return c.session.Feed(p) }

// Output implements loop.Handler.
func (c *conn) Output() (*[]byte, bool) {
	more := c.session.Pump()
	return &c.session.Out, more
}

// Closed implements loop.Handler.
func (c *conn) Closed(err error) {
	c.backend.paced.leave(c)
	if !errors.Is(err, io.EOF) && !errors.Is(err, unix.ECONNRESET) {
		c.backend.cfg.Log.Warn("connection ended", "err", err)
	}
}

// Headers implements h2.Events.
func (c *conn) Headers(st *h2.Stream, h h2.Headers, end bool) error {
	if st.Value != nil {
		return nil // trailers
	}
	k := c.newCall(methodOf(h.Path))
	st.Value = k
	if k.method == unknown {
		c.session.ReplyTrailers(st, c.unknown)
		return nil
	}
	if end {
		return c.answer(st, k)
	}
	return nil
}

// Data implements h2.Events.
func (c *conn) Data(st *h2.Stream, p []byte, end bool) error {
	k, ok := st.Value.(*call)
	if !ok {
		return nil
	}
	if k.method == reads && !k.known {
		if err := c.learn(k, p); err != nil {
			return err
		}
	}
	if end {
		return c.answer(st, k)
	}
	return nil
}

// learn reads the request's first field, which selects the response.
func (c *conn) learn(k *call, p []byte) error {
	head := p
	if len(k.head) > 0 {
		k.head = append(k.head, p...)
		head = k.head
	}
	name, ok, err := h2.FirstField(head)
	if err != nil {
		return err
	}
	if !ok {
		if len(k.head) == 0 {
			k.head = append(k.head, p...)
		}
		return nil
	}
	k.known = true
	k.work, err = c.backend.work(name)
	return err
}

// answer sends the response of a complete request.
func (c *conn) answer(st *h2.Stream, k *call) error {
	body := h2.Body{Count: 1}
	switch {
	case k.method == upload:
		body.Msg = c.backend.uploadReply
	case k.method == health:
		body.Msg = c.backend.healthReply
	case !k.known && k.method != unknown:
		return errors.New("request ended before its first field")
	case k.method == reads:
		a, err := c.backend.prepare(k.work)
		if err != nil {
			return err
		}
		body = h2.Body{Msg: a.msg, Last: a.last, Count: k.work.Count}
		switch k.work.Kind {
		case h2.IdleWork:
			body.Open = true
		case h2.PacedWork:
			body.Count, body.Open = 0, true
			c.session.Reply(st, c.fields, body)
			return c.backend.paced.add(c, st, k.work.Count)
		}
	default:
		return nil // rejected already
	}
	c.calls = append(c.calls, k)
	st.Value = answered{}
	c.session.Reply(st, c.fields, body)
	return nil
}

// answered replaces the call of a stream after the call has been reused.
type answered struct{}

// Reset implements h2.Events.
func (c *conn) Reset(st *h2.Stream, _ uint32) error {
	c.backend.paced.remove(st)
	return nil
}

func (c *conn) newCall(m method) *call {
	n := len(c.calls)
	if n == 0 {
		return &call{method: m}
	}
	k := c.calls[n-1]
	c.calls = c.calls[:n-1]
	*k = call{method: m, head: k.head[:0]}
	return k
}
