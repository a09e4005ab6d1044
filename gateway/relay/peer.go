package relay

import (
	"context"
	"crypto/tls"
	"net"
	"time"
)

// Peer is whose a client connection is. It stays the same as long as the connection lives.
type Peer struct {
	Addr     net.Addr             // the client's, which Config.Origin may know better than the socket
	TLS      *tls.ConnectionState // nil: cleartext
	Internal bool                 // made by Relay.Dial
	Value    any                  // what Config.Meet made of it
}

// meet completes what is known of a client whose connection is set up.
func (r *Relay) meet(p *Peer) *Peer {
	if r.cfg.Meet != nil {
		p.Value = r.cfg.Meet(p)
	}
	return p
}

// origin finds out whose a new connection is.
func (r *Relay) origin(nc net.Conn) (net.Addr, error) {
	if r.cfg.Origin == nil {
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
	peer  *Peer
	first []byte // read already, to tell the protocol
}

func (c *carrier) Read(p []byte) (int, error) {
	if len(c.first) > 0 {
		n := copy(p, c.first)
		c.first = c.first[n:]
		return n, nil
	}
	return c.Conn.Read(p)
}

// RemoteAddr is the client's.
func (c *carrier) RemoteAddr() net.Addr {
	if c.peer == nil { // the handshake is still to come
		return c.Conn.RemoteAddr()
	}
	return c.peer.Addr
}

type peerKey struct{}

// PeerOf is whose connection a request came by that the http.Handler got over HTTP/1.1; nil
// for one that came over HTTP/2, which Config.Web has seen.
func PeerOf(ctx context.Context) *Peer {
	p, _ := ctx.Value(peerKey{}).(*Peer)
	return p
}

// withPeer is the server's ConnContext.
func withPeer(ctx context.Context, nc net.Conn) context.Context {
	if tc, ok := nc.(*tls.Conn); ok {
		nc = tc.NetConn()
	}
	if c, ok := nc.(*carrier); ok {
		return context.WithValue(ctx, peerKey{}, c.peer)
	}
	return ctx
}
