package app

import (
	"net"

	"github.com/capgate/capgate/gateway/frontdoor/inbox"
)

// PublicAddr returns the address at which clients on this machine reach the public port.
func (p *App) PublicAddr() string { return reachable(p.ports.public.Addr()) }

// InboxURL returns the address of the inbox for a browser; "" if there is no inbox.
func (p *App) InboxURL() string {
	cfg := p.started.Config
	switch {
	case p.persons.inbox == nil:
		return ""
	case cfg.PublicURL != "":
		return cfg.PublicURL + inbox.Path
	case cfg.TLS.CertFile != "":
		return "https://" + p.PublicAddr() + inbox.Path
	}
	return "http://" + p.PublicAddr() + inbox.Path
}

// AdminLink returns the address of the admin API for a browser. With token, it has the start token and is valid until
// the process ends.
func (p *App) AdminLink() (link string, token bool) {
	if p.operators.token == "" && p.started.Config.AdminURL != "" {
		return p.started.Config.AdminURL, false
	}
	return p.startLink(), p.operators.token != ""
}

// reachable returns the address at which a client on this machine dials a listener.
func reachable(a net.Addr) string {
	host, port, _ := net.SplitHostPort(a.String())
	if ip := net.ParseIP(host); ip == nil || ip.IsUnspecified() {
		host = "localhost"
	}
	return net.JoinHostPort(host, port)
}

// startLink returns the address of the admin API for a person, with the start token if there is one.
func (p *App) startLink() string {
	scheme := "http://"
	if p.operators.secure.Load() != nil {
		scheme = "https://"
	}
	link := scheme + reachable(p.ports.admin.Addr())
	if p.operators.token != "" {
		link += "/?token=" + p.operators.token
	}
	return link
}

// addresses are the addresses of a process besides its public port and its admin API.
func (p *App) addresses() []string {
	all := make([]string, len(p.ports.listeners))
	for i, l := range p.ports.listeners {
		if all[i] = l.Socket.Addr().String(); l.Socket.Addr().Network() == "unix" {
			all[i] = "unix:" + all[i]
		}
	}
	return all
}

// AdminAddr returns the address of the admin API.
func (p *App) AdminAddr() string { return p.ports.admin.Addr().String() }
