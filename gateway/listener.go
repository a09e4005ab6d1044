package gateway

import (
	"crypto/tls"
	"net"

	"github.com/capgate/capgate/gateway/relay"
	"github.com/capgate/capgate/internal/lib/recovery"
	"github.com/capgate/capgate/internal/tenant"
)

// Listener is a port for clients besides the public one. Its calls pass the same filters.
type Listener struct {
	Of     *tenant.Listener // what its calls are
	Socket net.Listener
	TLS    *tls.Config // nil means cleartext
}

// listeners are the ports of Clients.Listeners.
type listeners []*relay.Port

func newListeners(all []Listener) listeners {
	ports := make(listeners, len(all))
	for i := range all {
		ports[i] = &relay.Port{Value: all[i].Of, Direct: true}
		if all[i].TLS != nil {
			ports[i].SetTLS(all[i].TLS)
		}
	}
	return ports
}

// SetListenerTLS is SetTLS for one of Clients.Listeners, which was made with TLS.
func (g *Gateway) SetListenerTLS(index int, t *tls.Config) { g.ports[index].SetTLS(t) }

// serve serves clients on public, and on those of Clients.Listeners. Each tells ended why it does no longer, once.
func (g *Gateway) serve(public net.Listener, ended chan<- error) {
	serve := func(what string, f func() error) {
		go func() { ended <- attempted(what, recovery.Do("serve", f)) }()
	}
	serve("serve clients", func() error { return g.relay.Serve(public) })
	for i, l := range g.cfg.Clients.Listeners {
		serve("serve clients at "+l.Of.Name, func() error { return g.relay.ServePort(l.Socket, g.ports[i]) })
	}
}
