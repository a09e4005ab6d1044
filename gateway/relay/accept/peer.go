package relay

import (
	"context"
	"crypto/tls"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/netip"
	"sync"
	"sync/atomic"
	"time"
)

// Peer is whose a client connection is. It stays the same as long as the connection lives.
type Peer struct {
	Addr     net.Addr             // the client's, which Config.Origin may know better than the socket
	Local    net.Addr             // the address that the client has connected to; nil: the process itself
	TLS      *tls.ConnectionState // nil: cleartext
	Internal bool                 // the process itself, which has no connection
	Port     *Port                // that the connection came in by; nil: the process itself
	Value    any                  // what Config.Meet made of it

	network       netip.Prefix // that it counts to; not valid: none
	unknown       bool         // it counts as one of an unknown network, under crowds.mu
	authenticated atomic.Bool  // see Relay.Authenticated
	guest         *guest       // see Config.Evict; under crowds.mu
	adopted       atomic.Bool  // see Relay.Adopt
	hold          hold         // of what the connection takes
	once          sync.Once
	text          string // of Addr, see address
}

// address is http.Request.RemoteAddr.
func (p *Peer) address() string {
	p.once.Do(func() {
		if p.Addr != nil {
			p.text = p.Addr.String()
		}
	})
	return p.text
}

// meet completes what is known of a client whose connection is set up.
func (r *Relay) meet(p *Peer) *Peer {
	if r.cfg.Meet != nil {
		p.Value = r.cfg.Meet(p)
	}
	return p
}

// process is whose the calls are that the process makes for itself.
func (r *Relay) process() *Peer {
	r.selfOnce.Do(func() { r.self = r.meet(&Peer{Addr: &net.UnixAddr{Name: "process", Net: "unix"}, Internal: true}) })
	return r.self
}

// origin finds out whose a new connection is.
func (r *Relay) origin(nc net.Conn, port *Port) (net.Addr, error) {
	if r.cfg.Origin == nil || port.Direct {
		return nc.RemoteAddr(), nil
	}
	if err := nc.SetReadDeadline(time.Now().Add(r.cfg.SetupTimeout)); err != nil {
		return nil, err
	}
	stop := context.AfterFunc(r.ctx, func() { _ = nc.SetReadDeadline(time.Unix(1, 0)) })
	addr, err := r.cfg.Origin(nc)
	if !stop() && err == nil {
		err = r.ctx.Err()
	}
	if err != nil {
		return nil, err
	}
	return addr, nc.SetReadDeadline(time.Time{})
}

// carrier is a client's connection with what is known of it, for the http.Handler's server.
type carrier struct {
	net.Conn
	peer   *Peer
	first  []byte          // read already, to tell the protocol
	ctx    context.Context //nolint:containedctx // net.Conn has none; it ends with the relay
	until  time.Time       // when it is to be replaced; zero: never
	unread atomic.Bool     // the client may be sending a request that is answered already
	heads  heads

	tooMuch *Page // Config.TooMuch
}

// carry returns the connection of a client of which first was read.
func (r *Relay) carry(nc net.Conn, p *Peer, first []byte) *carrier {
	c := &carrier{Conn: nc, peer: p, first: first, ctx: r.ctx, tooMuch: &r.cfg.TooMuch}
	if age := r.spread(); age > 0 {
		c.until = time.Now().Add(age)
	}
	return c
}

func (c *carrier) Read(p []byte) (int, error) {
	if len(c.first) > 0 {
		n := copy(p, c.first)
		c.first = c.first[n:]
		return n, nil
	}
	n, err := c.Conn.Read(p)
	if !c.heads.came(&c.peer.hold, n) {
		c.refuse()
		return 0, io.EOF // to the http.Handler's server, which would say that the request is bad
	}
	return n, err
}

// refuse answers a request of whose headers there is too much to hold.
func (c *carrier) refuse() {
	if c.SetWriteDeadline(time.Now().Add(time.Second)) == nil {
		_, _ = fmt.Fprintf(c.Conn, "HTTP/1.1 429 Too Many Requests\r\nConnection: close\r\nContent-Type: %s\r\n"+
			"Content-Length: %d\r\n\r\n%s",
			c.tooMuch.Type, len(c.tooMuch.Body), c.tooMuch.Body) // the client may be gone
	}
}

// RemoteAddr is the client's.
func (c *carrier) RemoteAddr() net.Addr { return c.peer.Addr }

// CloseWrite is for net/http, which calls it before Close where it knows that the client still sends.
func (c *carrier) CloseWrite() error {
	if half, ok := c.Conn.(interface{ CloseWrite() error }); ok {
		return half.CloseWrite()
	}
	return nil
}

// Bounds of the rest of a request whose response is complete.
const (
	maxUnread = 64 << 20 // bytes
	farewell  = 5 * time.Second
)

// Close implements net.Conn. A client that still sends would lose the answer with the connection (RFC 9112 §9.6), so it
// is heard out first, for a while.
func (c *carrier) Close() error {
	if c.unread.Swap(false) && c.ctx.Err() == nil && c.CloseWrite() == nil &&
		c.SetReadDeadline(time.Now().Add(farewell)) == nil {
		_, _ = io.CopyN(io.Discard, c.Conn, maxUnread) // to its end; the client may be gone
	}
	return c.Conn.Close()
}

// heard has connections know which requests were answered before their clients had sent them.
func heard(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
		if req.Trailer == nil { // else those that the client has not announced are told to nobody who has a copy of req
			req.Trailer = http.Header{}
		}
		c, ok := req.Context().Value(carrierKey{}).(*carrier)
		if ok {
			c.heads.handled()
		}
		if !ok || req.Body == nil || req.Body == http.NoBody {
			next.ServeHTTP(w, req)
			return
		}
		c.unread.Store(false)
		b := &heardBody{ReadCloser: req.Body}
		req = req.WithContext(req.Context()) // net/http looks at the body of its own
		req.Body = b
		next.ServeHTTP(w, req)
		c.unread.Store(!b.over.Load())
	})
}

type heardBody struct {
	io.ReadCloser
	over atomic.Bool
}

func (b *heardBody) Read(p []byte) (int, error) {
	n, err := b.ReadCloser.Read(p)
	if err == io.EOF {
		b.over.Store(true)
	}
	return n, err
}

type carrierKey struct{}

// PeerOf is whose connection a request came by that the http.Handler got over HTTP/1.1; nil
// for one that came over HTTP/2, which Config.Web has seen, see ValueOf.
func PeerOf(ctx context.Context) *Peer {
	if c, ok := ctx.Value(carrierKey{}).(*carrier); ok {
		return c.peer
	}
	return nil
}

// ClientOf returns the Peer of a request of the http.Handler; nil: the request came from elsewhere.
func ClientOf(ctx context.Context) *Peer {
	if e, ok := ctx.Value(webKey{}).(*webEnd); ok {
		return e.peer
	}
	return PeerOf(ctx)
}

// withCarrier is the server's ConnContext.
func withCarrier(ctx context.Context, nc net.Conn) context.Context {
	if c, ok := nc.(*carrier); ok {
		return context.WithValue(ctx, carrierKey{}, c)
	}
	return ctx
}
