package accept

import (
	"cmp"
	"context"
	"crypto/tls"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"strconv"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/capgate/capgate/gateway/relay/accept/http1"
)

// HTTP/1.1 connections are served by http1 while their requests are common ones, and then by net/http.

// newCommon returns the server of common requests.
func (s *Server) newCommon(h http.Handler) *http1.Server {
	return http1.New(http1.Config{
		Handler:  s.withLastResponse(s.withHeaderLimit(withPeer(h))),
		HandOver: func(c http1.Conn, unread []byte) { s.handOver(c.(*http1Conn), unread) },
		Panicked: s.cfg.Panicked,
		Setup:    s.cfg.SetupTimeout,
		Idle:     s.cfg.IdleTimeout,
	})
}

// serveHTTP1 serves a connection until its end, or until net/http's server has it.
func (s *Server) serveHTTP1(c *http1Conn, first []byte) {
	handedOver := false
	defer func() {
		if !handedOver {
			_ = c.Close()
			s.release(c.peer)
		}
	}()
	defer s.recoverConn(c)
	handedOver = s.common.Serve(c, first)
}

// handOver passes a connection to net/http's server.
func (s *Server) handOver(c *http1Conn, unread []byte) {
	c.first = unread
	s.http1Ln.give(c)
}

// ShutdownHTTP1 ends idle connections over HTTP/1.1, and the others after their response. It returns when none is left,
// or ctx's error.
func (s *Server) ShutdownHTTP1(ctx context.Context) error {
	var others sync.WaitGroup
	var err error
	others.Go(func() { err = s.http1.Shutdown(ctx) })
	commonErr := s.common.Shutdown(ctx)
	others.Wait()
	return cmp.Or(err, commonErr)
}

// newHTTP1 returns net/http's server for HTTP/1.1 connections.
func (s *Server) newHTTP1(h http.Handler) *http.Server {
	protocols := new(http.Protocols)
	protocols.SetHTTP1(true)
	return &http.Server{
		Handler:           withUnread(s.withLastResponse(s.withHeaderLimit(withPeer(h)))),
		Protocols:         protocols,
		ReadHeaderTimeout: s.cfg.SetupTimeout,
		IdleTimeout:       s.cfg.IdleTimeout,
		// beyond that limit it responds by itself, with a line of text, and closes the connection
		MaxHeaderBytes: 2 * s.cfg.MaxHeaderList,
		ConnState:      s.connState,
		ConnContext:    withConn,
		ErrorLog:       slog.NewLogLogger(s.cfg.Log.Handler(), slog.LevelDebug),
	}
}

// withHeaderLimit rejects requests whose header list is too long.
func (s *Server) withHeaderLimit(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
		if listSize(req) <= s.cfg.MaxHeaderList {
			next.ServeHTTP(w, req)
			return
		}
		page := &s.cfg.Pages.HeadersTooLarge
		if len(page.Body) > 0 {
			w.Header().Set("Content-Type", page.Type)
			w.Header().Set("Content-Length", strconv.Itoa(len(page.Body)))
		}
		w.Header().Set("Connection", "close")
		w.WriteHeader(http.StatusRequestHeaderFieldsTooLarge)
		_, _ = w.Write(page.Body) // the client may have disconnected
	})
}

// listSize returns the approximate size of a request's header list in HTTP/2 (RFC 9113 §6.5.2).
func listSize(req *http.Request) int {
	const each = 32
	n := len(req.Method) + len(req.RequestURI) + len(req.Host) + 3*each
	for name, values := range req.Header {
		for _, v := range values {
			n += len(name) + len(v) + each
		}
	}
	return n
}

// RequestCost returns the approximate memory of an HTTP/1.1 request besides its body, in bytes.
func RequestCost(req *http.Request) int64 { return int64(RequestBytes + HeaderCopies*listSize(req)) }

// connState releases the slot of a client connection that was passed to net/http's server.
func (s *Server) connState(nc net.Conn, state http.ConnState) {
	c, ok := nc.(*http1Conn)
	if !ok {
		return
	}
	switch state {
	case http.StateIdle:
		c.headers.release(&c.peer.memory)
	case http.StateClosed, http.StateHijacked:
		s.release(c.peer)
	}
}

// handoff is a listener for connections that were accepted elsewhere.
type handoff struct {
	conns chan net.Conn
	done  chan struct{}
	once  sync.Once
}

func newHandoff() *handoff {
	return &handoff{conns: make(chan net.Conn), done: make(chan struct{})}
}

// give passes a connection on, or closes it if the server has stopped accepting.
func (h *handoff) give(nc net.Conn) {
	select {
	case h.conns <- nc:
	case <-h.done: // slots no longer matter
		_ = nc.Close()
	}
}

func (h *handoff) Accept() (net.Conn, error) {
	select {
	case nc := <-h.conns:
		return nc, nil
	case <-h.done:
		return nil, net.ErrClosed
	}
}

func (h *handoff) Close() error {
	h.once.Do(func() { close(h.done) })
	return nil
}

func (h *handoff) Addr() net.Addr { return &net.UnixAddr{Name: "handoff", Net: "unix"} }

// http1Conn is a client's connection with its Peer.
type http1Conn struct {
	net.Conn
	raw     syscall.RawConn // nil for a connection that is not a socket
	srv     *Server
	peer    *Peer
	first   []byte          // already read, for net/http
	ctx     context.Context //nolint:containedctx // net.Conn has none; it ends with the Server
	until   time.Time       // time of replacement; zero means never
	unread  atomic.Bool     // the client may still send a request whose response is complete
	headers headerBytes
	tooMany *Page // Pages.TooManyRequests

	reads, writes deadline
}

// newHTTP1Conn returns a client's connection.
func (s *Server) newHTTP1Conn(nc net.Conn, p *Peer) *http1Conn {
	c := &http1Conn{Conn: nc, srv: s, peer: p, ctx: s.ctx, tooMany: &s.cfg.Pages.TooManyRequests}
	switch nc := nc.(type) { // others may have bytes besides those of their socket
	case *tls.Conn:
		c.reads.always, c.writes.always = true, true
	case *net.TCPConn:
		c.raw, _ = nc.SyscallConn() // an error means that it is closed
	case *net.UnixConn:
		c.raw, _ = nc.SyscallConn()
	}
	if age := s.cfg.Age.Spread(); age > 0 {
		c.until = time.Now().Add(age)
	}
	return c
}

// Read implements net.Conn, for net/http.
func (c *http1Conn) Read(p []byte) (n int, err error) {
	if len(c.first) > 0 {
		n = copy(p, c.first)
		if c.first = c.first[n:]; len(c.first) == 0 {
			c.first = nil
		}
	} else {
		n, err = c.Receive(p)
	}
	if !c.headers.add(&c.peer.memory, n) {
		c.reject()
		return 0, io.EOF // for the http.Handler's server, which would otherwise respond that the request is malformed
	}
	return n, err
}

// reject responds to a request without memory for its headers.
func (c *http1Conn) reject() {
	if c.SetWriteDeadline(time.Now().Add(time.Second)) == nil {
		_, _ = fmt.Fprintf(c, "HTTP/1.1 429 Too Many Requests\r\nConnection: close\r\nContent-Type: %s\r\n"+
			"Content-Length: %d\r\n\r\n%s",
			c.tooMany.Type, len(c.tooMany.Body), c.tooMany.Body) // the client may have disconnected
	}
}

// RemoteAddr returns the client's address.
func (c *http1Conn) RemoteAddr() net.Addr { return c.peer.Addr }

// Unread implements http1.Conn.
func (c *http1Conn) Unread() { c.unread.Store(true) }

// Value implements http1.Conn.
func (c *http1Conn) Value(key any) any {
	switch key {
	case connKey{}:
		return c
	case http.LocalAddrContextKey:
		return c.LocalAddr()
	case http.ServerContextKey:
		return c.srv.http1
	}
	return nil
}

// CloseWrite is for net/http, which calls it before Close if the client still sends.
func (c *http1Conn) CloseWrite() error {
	if half, ok := c.Conn.(interface{ CloseWrite() error }); ok {
		return half.CloseWrite()
	}
	return nil
}

// Limits for the rest of a request whose response is complete.
const (
	maxUnread     = 64 << 20 // bytes
	unreadTimeout = 5 * time.Second
)

// Close implements net.Conn. A client that still sends would lose the response with the connection (RFC 9112 §9.6), so
// the rest of the request is read first, for a limited time.
func (c *http1Conn) Close() error {
	if c.unread.Swap(false) && c.ctx.Err() == nil && c.CloseWrite() == nil &&
		c.Conn.SetReadDeadline(time.Now().Add(unreadTimeout)) == nil {
		_, _ = io.CopyN(io.Discard, c.Conn, maxUnread) // to its end; the client may have disconnected
	}
	return c.Conn.Close()
}

// withUnread marks connections whose request receives its response before the client has sent all of it.
func withUnread(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
		if req.Trailer == nil { // otherwise a copy of req does not receive unannounced trailers
			req.Trailer = http.Header{}
		}
		c, ok := req.Context().Value(connKey{}).(*http1Conn)
		if ok {
			c.headers.handled()
		}
		if !ok || req.Body == nil || req.Body == http.NoBody {
			next.ServeHTTP(w, req)
			return
		}
		c.unread.Store(false)
		b := &trackedBody{ReadCloser: req.Body}
		req = req.WithContext(req.Context()) // net/http checks the body of its own request
		req.Body = b
		next.ServeHTTP(w, req)
		c.unread.Store(!b.over.Load())
	})
}

// trackedBody records whether a body was read to its end.
type trackedBody struct {
	io.ReadCloser
	over atomic.Bool
}

func (b *trackedBody) Read(p []byte) (int, error) {
	n, err := b.ReadCloser.Read(p)
	if err == io.EOF {
		b.over.Store(true)
	}
	return n, err
}

type connKey struct{}

// PeerOf returns the client of an HTTP/1.1 request; nil for other requests.
func PeerOf(ctx context.Context) *Peer {
	if c, ok := ctx.Value(connKey{}).(*http1Conn); ok {
		return c.peer
	}
	return nil
}

// withConn is the server's ConnContext.
func withConn(ctx context.Context, nc net.Conn) context.Context {
	if c, ok := nc.(*http1Conn); ok {
		return context.WithValue(ctx, connKey{}, c)
	}
	return ctx
}
