package http1

import (
	"context"
	"net/http"
	"sync/atomic"
	"time"
)

// conn is a connection that the Server serves. Except for its state and its watch it belongs to one goroutine.
type conn struct {
	srv    *Server
	nc     Conn
	remote string // http.Request.RemoteAddr
	state  atomic.Int32
	served atomic.Bool // the client has sent a request
	watch  watch
	failed atomic.Bool // a read or a write has failed

	buf      *buffers // nil while the client sends nothing
	from, to int      // unread bytes of buf.in

	try   func(fd uintptr) bool // read
	got   int                   // the result of read
	err   error
	waits bool // read waits for bytes
}

// The states of a connection.
const (
	active int32 = iota
	idle
	left // it was idle, and is closed
)

// serve serves requests until the connection has ended or must be handed over, with its unread bytes.
func (c *conn) serve(first []byte) (unread []byte, handOver bool) {
	defer c.srv.remove(c)
	defer c.release()
	if len(first) > 0 {
		c.acquire()
		c.to = copy(c.buf.in[:], first)
	}
	for {
		if c.from == c.to && !c.await() {
			return nil, false
		}
		h, ok := c.head()
		if !ok {
			return append([]byte(nil), c.buf.in[c.from:c.to]...), true
		}
		c.served.Store(true)
		if !c.respond(&h) {
			return nil, false
		}
	}
}

// await waits for the first bytes of a request.
func (c *conn) await() bool {
	timeout := c.srv.cfg.Idle
	if !c.served.Load() {
		timeout = c.srv.cfg.Setup
	}
	if c.nc.SetReadDeadline(time.Now().Add(timeout)) != nil {
		return false
	}
	c.state.Store(idle)
	if c.srv.stopping.Load() {
		c.leave()
	}
	err := c.receive(true)
	return c.state.CompareAndSwap(idle, active) && err == nil
}

// leave ends an idle connection during a shutdown.
func (c *conn) leave() {
	if !c.served.Load() {
		_ = c.nc.SetReadDeadline(time.Now().Add(freshGrace))
	} else if c.state.CompareAndSwap(idle, left) {
		_ = c.nc.Close()
	}
}

// head returns the next head. ok is false if it is incomplete, or for net/http.
func (c *conn) head() (h head, ok bool) {
	h, more := parse(c.buf.in[c.from:c.to])
	if more && c.receive(false) == nil {
		h, _ = parse(c.buf.in[c.from:c.to])
	}
	return h, h.size > 0
}

// exchange is a request and its response. It is not reused, because a handler may keep any part of it.
type exchange struct {
	ctx  requestContext
	body body
	resp response
}

// respond serves a request. It reports whether the connection can be used for another one.
func (c *conn) respond(h *head) (reuse bool) {
	e := &exchange{}
	var cancel context.CancelFunc
	e.ctx.Context, cancel = context.WithCancel(context.Background())
	e.ctx.conn = c
	e.resp.init(c, h, &e.body)
	rest := c.from + h.size
	here := min(h.length, c.to-rest)
	e.body.init(c, c.buf.in[rest:rest+here], h.length)
	c.from = rest + here
	if here < h.length {
		_ = c.nc.SetReadDeadline(time.Time{}) // that of waiting; the handler sets its own
	}
	req := h.request(c, e)
	c.watch.begin(cancel, &e.body)
	defer func() {
		v := recover()
		if v != nil && v != http.ErrAbortHandler { //nolint:errorlint // as net/http compares it
			c.srv.cfg.Panicked("http1 request", v)
		}
		cancel()
		c.watch.end() // before anything else reads
		e.resp.over = true
		e.body.end()
		reuse = reuse && !c.failed.Load() && c.tidy()
	}()
	c.srv.cfg.Handler.ServeHTTP(&e.resp, req)
	e.resp.finish()
	if req.MultipartForm != nil {
		_ = req.MultipartForm.RemoveAll() // on error, files remain in the system's temporary directory
	}
	return e.resp.reusable()
}

// tidy prepares the connection for another request.
func (c *conn) tidy() bool {
	if c.from == c.to {
		c.from, c.to = 0, 0
	}
	if b, ok := c.watch.take(); ok {
		if c.to == len(c.buf.in) {
			c.compact()
		}
		c.buf.in[c.to] = b
		c.to++
	}
	return c.nc.SetWriteDeadline(time.Time{}) == nil
}

// Write writes bytes of a response.
func (c *conn) Write(p []byte) (int, error) {
	n, err := c.nc.Write(p)
	if err != nil {
		c.fail()
	}
	return n, err
}

// fail ends the context of the request, and the connection after it.
func (c *conn) fail() {
	c.failed.Store(true)
	c.watch.cancelRequest()
}

// requestContext is the context of a request. It ends when the client disconnects, or when the handler has returned.
type requestContext struct {
	context.Context //nolint:containedctx // it adds values to that context
	conn            *conn
}

// Value implements context.Context.
func (c *requestContext) Value(key any) any {
	if v := c.conn.nc.Value(key); v != nil {
		return v
	}
	return c.Context.Value(key)
}
