package gateway

import (
	"net"
	"net/http"
	"net/netip"
	"time"

	"github.com/capgate/capgate/gateway/client"
	"github.com/capgate/capgate/gateway/frontdoor/web"
	"github.com/capgate/capgate/gateway/relay"
	"github.com/capgate/capgate/gateway/relay/accept"
	"github.com/capgate/capgate/internal/clientaddr"
)

// Limits of the admin API, which also hold for clients without a credential. They leave file descriptors to the public
// port.
const (
	adminConns        = 256
	adminNetworkConns = 128 // per network
	adminClosing      = 32  // closing connections, in addition to the limit of open ones
	adminStreams      = 32  // per HTTP/2 connection
	adminHeader       = 16 << 10
	adminSetup        = 10 * time.Second
	adminIdle         = time.Minute
)

// newAdminRelay returns the server of the admin API. It shares the listener code, limits and memory accounts of the
// public port, with values of its own. It has no calls: its handler serves gRPC too.
func (g *Gateway) newAdminRelay(public *relay.Config) *relay.Relay {
	cfg := relay.Config{
		Shards: 1, Log: public.Log, TLS: g.cfg.Admin.TLS, Panicked: public.Panicked, OnConnect: client.New,
		WebOnly: true,
		Limits: accept.Limits{Network: adminNetwork, Evict: true, MaxConns: adminConns, MorePorts: adminClosing,
			MaxNetworkConns: adminNetworkConns, MaxHandshakes: adminNetworkConns},
		Timeouts: relay.Timeouts{Setup: adminSetup, Idle: adminIdle},
		HTTP2:    relay.HTTP2{MaxStreams: adminStreams, MaxHeaderList: adminHeader},
		Memory: relay.Memory{MaxKept: public.Memory.MaxKept, Client: g.handler.shares.operator,
			Connection: g.handler.shares.operator},
		Responses: public.Responses,
	}
	exempt := func(*http.Request) bool { return false }
	r := relay.New(cfg, nil, web.Stall(g.cfg.Clients.Stall, exempt, g.operators))
	if g.cfg.Admin.Guard != nil {
		g.cfg.Admin.Guard.OnAccepted(func(req *http.Request) {
			if p := relay.ClientOf(req.Context()); p != nil {
				r.Authenticated(p)
			}
		})
	}
	return r
}

// adminNetwork implements accept.Limits.Network. No client is exempt. Connections other than IP are not limited.
func adminNetwork(addr net.Addr) (netip.Prefix, bool) {
	if a := clientaddr.AddrOf(addr); a.IsValid() {
		return clientaddr.Network(a), true
	}
	return netip.Prefix{}, false
}
