package app

import (
	"github.com/capgate/capgate/gateway/relay"
	"github.com/capgate/capgate/internal/settings"
)

// relayConfig is how clients' connections are bounded.
func (p *App) relayConfig(s *settings.Settings, share memoryPools) relay.Config {
	c := relay.Config{Log: p.log, TLS: s.ServerTLS, Limits: s.Config.ClientLimits.Limits, Age: s.Config.ConnectionAge,
		Memory: relay.Memory{MaxBuffered: share.shard}}
	if c.Limits.ReservedConns == 0 {
		c.Limits.ReservedConns = -1 // none
	}
	return c
}
