package app

import (
	"github.com/capgate/capgate/gateway/relay"
	"github.com/capgate/capgate/internal/settings"
)

// relayConfig returns the bounds of clients' connections.
func (p *App) relayConfig(s *settings.Settings, share memoryPools) relay.Config {
	return relay.Config{Log: p.log, TLS: s.ServerTLS, Limits: s.Config.ClientLimits.Limits(),
		Age: s.Config.ConnectionAge, Memory: relay.Memory{MaxBuffered: share.shard}}
}
