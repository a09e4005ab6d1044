package app

import (
	"github.com/capgate/capgate/internal/clientaddr"
	"github.com/capgate/capgate/internal/config"
)

// clientAddrFeature finds the addresses of clients behind trusted proxies.
func clientAddrFeature() feature {
	return feature{
		build: func(p *App) error {
			p.parts.Clients.Addr = clientaddr.New(clientAddrConfig(p.started.Config))
			return p.metrics.Add(p.parts.Clients.Addr)
		},
		apply: func(p *App, c *change) { p.parts.Clients.Addr.Replace(clientAddrConfig(c.Config)) },
	}
}

// clientAddrConfig returns the trusted proxies of the file.
func clientAddrConfig(cfg *config.Config) clientaddr.Config {
	protocols := map[string]clientaddr.Protocol{"v1": clientaddr.V1, "v2": clientaddr.V2}
	c := &cfg.Proxies
	return clientaddr.Config{Trusted: c.From, Hops: c.Hops, Header: c.Header, Protocol: protocols[cfg.ProxyProtocol]}
}
