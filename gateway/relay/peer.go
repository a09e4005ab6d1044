package relay

import (
	"context"
	"net"
	"net/http"

	"github.com/capgate/capgate/gateway/relay/accept"
)

// Peer is the client of a connection.
type Peer = accept.Peer

// Port is the common configuration of the clients of a listener.
type Port = accept.Port

// Page is the body of a response.
type Page = accept.Page

// Account limits the memory of an owner, in bytes.
type Account = accept.Account

// RequestCost returns the approximate memory of an HTTP/1.1 request besides its body, in bytes.
func RequestCost(req *http.Request) int64 { return accept.RequestCost(req) }

// process returns the Peer of the process's own calls.
func (r *Relay) process() *Peer {
	r.selfOnce.Do(func() {
		r.self = &Peer{Addr: &net.UnixAddr{Name: "process", Net: "unix"}, Internal: true}
		if r.cfg.OnConnect != nil {
			r.self.Value = r.cfg.OnConnect(r.self)
		}
	})
	return r.self
}

// SetGroup charges a client's connection to the group of one of its calls or requests. The first group of a connection
// stays.
func (r *Relay) SetGroup(p *Peer, g *Group) { p.SetAccount(g.account) }

// PeerOf returns the client of an HTTP/1.1 request of the http.Handler; nil for an HTTP/2 request, which Config.Web
// has seen, see ValueOf.
func PeerOf(ctx context.Context) *Peer { return accept.PeerOf(ctx) }

// ClientOf returns the Peer of a request of the http.Handler; nil for requests from elsewhere.
func ClientOf(ctx context.Context) *Peer {
	if e, ok := ctx.Value(webKey{}).(*webEnd); ok {
		return e.peer
	}
	return PeerOf(ctx)
}
