package main

import (
	"github.com/capgate/capgate/gateway/edge"
	"github.com/capgate/capgate/internal/config"
)

// edgeOf is who is believed about where calls come from.
func edgeOf(c *config.Proxies) edge.Config {
	protocols := map[string]edge.Protocol{"v1": edge.V1, "v2": edge.V2}
	return edge.Config{Trusted: c.From, Hops: c.Hops, Header: c.Header, Protocol: protocols[c.ProxyProtocol]}
}
