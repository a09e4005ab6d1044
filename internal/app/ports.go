package app

import (
	"crypto/tls"
	"net"
	"slices"

	"github.com/capgate/capgate/gateway"
)

// ports are the listeners of a process.
type ports struct {
	public, admin net.Listener
	listeners     []gateway.Listener
}

// portsFeature opens the ports. A reload renews the certificates that they show.
func portsFeature() feature {
	var shown certificates
	return feature{
		build: func(p *App) (err error) {
			s := p.started
			shown = certificates{public: s.ServerTLS, listeners: slices.Clone(s.ListenerTLS)}
			if p.ports.public, err = listen("listen", s.Config.Listen); err == nil {
				p.ports.admin, err = listen("admin", s.Config.Admin)
			}
			if err == nil {
				err = p.ports.openListeners(s)
			}
			p.parts.Clients.Listeners = p.ports.listeners
			return err
		},
		apply: func(p *App, c *change) { shown.renew(p, c) },
		close: func(p *App) {
			for _, ln := range []net.Listener{p.ports.public, p.ports.admin} {
				if ln != nil {
					_ = ln.Close()
				}
			}
			for _, l := range p.ports.listeners {
				_ = l.Socket.Close()
			}
		},
	}
}

// certificates holds the certificates of the ports for callers.
type certificates struct {
	public    *tls.Config   // nil: cleartext
	listeners []*tls.Config // by the listeners of the start
}

// renew shows renewed certificates. To turn TLS on or off needs a restart.
func (shown *certificates) renew(p *App, c *change) {
	if c.ServerTLS != nil && shown.public != nil && c.ServerTLS != shown.public {
		shown.public = c.ServerTLS
		p.gateway.SetTLS(c.ServerTLS)
	}
	for i := range p.started.Config.Listeners {
		at := c.Listener(p.started.Config.Listeners[i].Address)
		if at < 0 || c.ListenerTLS[at] == nil || shown.listeners[i] == nil || c.ListenerTLS[at] == shown.listeners[i] {
			continue
		}
		shown.listeners[i] = c.ListenerTLS[at]
		p.gateway.SetListenerTLS(i, shown.listeners[i])
	}
}
