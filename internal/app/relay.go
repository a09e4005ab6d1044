package app

import (
	"github.com/capgate/capgate/gateway/filter/open"
	"github.com/capgate/capgate/gateway/relay"
	"github.com/capgate/capgate/internal/config"
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

func openCallsOf(of *config.ClientLimits) open.Limits {
	return open.Limits{All: of.OpenCalls, Network: of.NetworkOpenCalls, Connection: of.ConnectionOpenCalls}
}
