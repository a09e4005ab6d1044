package app

import (
	"github.com/capgate/capgate/internal/clientaddr"
	"github.com/capgate/capgate/internal/config"
)

// clientAddrFeature finds the addresses of clients behind trusted proxies.
func clientAddrFeature() feature {
	return feature{
		build: func(p *App) error {
			p.parts.Clients.Addr = clientaddr.New(proxiesOf(p.started.Config))
			return p.metrics.Add(p.parts.Clients.Addr)
		},
		apply: func(p *App, c *change) { p.parts.Clients.Addr.Replace(proxiesOf(c.Config)) },
	}
}

// proxiesOf returns the trusted proxies of the file, and their protocol.
func proxiesOf(cfg *config.Config) clientaddr.Config {
	c := cfg.Proxies
	c.Protocol = cfg.ProxyProtocol
	return c
}
