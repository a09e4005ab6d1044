package app

import (
	"github.com/capgate/capgate/internal/clientaddr"
	"github.com/capgate/capgate/internal/config"
)

// clientAddrConfig returns the trusted proxies of the file.
func clientAddrConfig(cfg *config.Config) clientaddr.Config {
	protocols := map[string]clientaddr.Protocol{"v1": clientaddr.V1, "v2": clientaddr.V2}
	c := &cfg.Proxies
	return clientaddr.Config{Trusted: c.From, Hops: c.Hops, Header: c.Header, Protocol: protocols[cfg.ProxyProtocol]}
}
