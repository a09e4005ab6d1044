package gateway

import (
	"crypto/tls"
	"net"

	"github.com/capgate/capgate/gateway/relay"
	"github.com/capgate/capgate/internal/lib/recovery"
	"github.com/capgate/capgate/internal/tenant"
)

// Listener is an additional port for clients. Its calls pass the same filters.
type Listener struct {
	Of     *tenant.Listener // settings of its calls
	Socket net.Listener
	TLS    *tls.Config // nil means cleartext
}

// listeners holds the ports of Clients.Listeners.
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

// SetListenerTLS changes the TLS settings of the port of Clients.Listeners at index, as SetTLS does for the public
// port.
func (g *Gateway) SetListenerTLS(index int, t *tls.Config) { g.ports[index].SetTLS(t) }

// serve serves clients on public and on Clients.Listeners. Each listener sends its error to ended once.
func (g *Gateway) serve(public net.Listener, ended chan<- error) {
	serve := func(what string, f func() error) {
		go func() { ended <- attempted(what, recovery.Do("serve", f)) }()
	}
	serve("serve clients", func() error { return g.relay.Serve(public) })
	for i, l := range g.cfg.Clients.Listeners {
		serve("serve clients at "+l.Of.Name, func() error { return g.relay.ServePort(l.Socket, g.ports[i]) })
	}
}
