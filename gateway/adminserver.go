package gateway

import (
	"net"
	"net/http"
	"net/netip"
	"time"

	"github.com/capgate/capgate/gateway/relay"
	"github.com/capgate/capgate/internal/clientaddr"
)

// Bounds of the admin API, for clients without a credential too. They leave the descriptors to the public port.
const (
	adminConns        = 256
	adminNetworkConns = 128 // of one network
	adminClosing      = 32  // connections that are ending, besides these
	adminStreams      = 32  // of a connection over HTTP/2
	adminHeader       = 16 << 10
	adminSetup        = 10 * time.Second
	adminIdle         = time.Minute
)

// newAdminRelay returns the server of the admin API. It has the listener, the limits and the accounts of memory of the
// public port's, with numbers of its own, and no calls: its handler answers gRPC too.
func (g *Gateway) newAdminRelay(public *relay.Config) *relay.Relay {
	cfg := relay.Config{
		TLS: g.cfg.AdminTLS, Log: public.Log, WebOnly: true, Evict: true, Network: adminNetwork, OnConnect: newClientConn,
		Account: g.handler.shares.operator, ConnAccount: g.handler.shares.operator, MaxKept: public.MaxKept,
		Panicked: public.Panicked, TooMuch: public.TooMuch, TooLong: public.TooLong, Cleartext: public.Cleartext,
		Shards: 1, MaxConns: adminConns, MorePorts: adminClosing, MaxNetworkConns: adminNetworkConns,
		MaxHandshakes: adminNetworkConns, MaxStreams: adminStreams, MaxHeaderList: adminHeader,
		SetupTimeout: adminSetup, IdleTimeout: adminIdle,
	}
	r := relay.New(cfg, nil, withConnTLS(withStalls(g.cfg.Stall, func(*http.Request) bool { return false }, g.operators)))
	if g.cfg.Guard != nil {
		g.cfg.Guard.OnAccepted(func(req *http.Request) {
			if p := relay.ClientOf(req.Context()); p != nil {
				r.Authenticated(p)
			}
		})
	}
	return r
}

// adminNetwork is relay.Config.Network: no client is exempt. Connections of other kinds than IP have no bound of their
// own.
func adminNetwork(addr net.Addr) (netip.Prefix, bool) {
	if a := clientaddr.AddrOf(addr); a.IsValid() {
		return clientaddr.Network(a), true
	}
	return netip.Prefix{}, false
}

// withConnTLS sets the TLS state of requests over HTTP/1.1, whose server does not see the handshake.
func withConnTLS(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if p := relay.ClientOf(r.Context()); r.TLS == nil && p != nil && p.TLS != nil {
			r = r.WithContext(r.Context())
			r.TLS = p.TLS
		}
		next.ServeHTTP(w, r)
	})
}
