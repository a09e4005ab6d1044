package relay

import (
	"context"
	"net"
	"net/http"

	"github.com/capgate/capgate/gateway/relay/accept"
)

// Peer is the client of a connection.
type Peer = accept.Peer

// Port is what the clients of one listener have in common.
type Port = accept.Port

// Page is the body of a response.
type Page = accept.Page

// Account bounds the bytes of memory of one owner.
type Account = accept.Account

// RequestCost is about how many bytes a request over HTTP/1.1 takes besides its body.
func RequestCost(req *http.Request) int64 { return accept.RequestCost(req) }

// process returns the Peer of the calls that the process makes for itself.
func (r *Relay) process() *Peer {
	r.selfOnce.Do(func() {
		r.self = &Peer{Addr: &net.UnixAddr{Name: "process", Net: "unix"}, Internal: true}
		if r.cfg.OnConnect != nil {
			r.self.Value = r.cfg.OnConnect(r.self)
		}
	})
	return r.self
}

// SetGroup has a group hold what a client's connection takes, of which a call or request is the group's. The first
// group of a connection stays.
func (r *Relay) SetGroup(p *Peer, g *Group) { p.SetAccount(g.account) }

// PeerOf returns the client of a request over HTTP/1.1 that the http.Handler serves; nil for a request over HTTP/2,
// which Config.Web has seen, see ValueOf.
func PeerOf(ctx context.Context) *Peer { return accept.PeerOf(ctx) }

// ClientOf returns the Peer of a request of the http.Handler; nil means the request came from elsewhere.
func ClientOf(ctx context.Context) *Peer {
	if e, ok := ctx.Value(webKey{}).(*webEnd); ok {
		return e.peer
	}
	return PeerOf(ctx)
}
