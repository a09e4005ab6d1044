package redisstore

import (
	"crypto/tls"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/redis/go-redis/v9/maintnotifications"

	"github.com/capgate/capgate/internal/lib/redisurl"
)

// connections bounds the connections to one node. Commands are short; further ones wait.
const connections = 16

// universal converts the Config to the client library's options.
func universal(cfg *Config, t *redisurl.Target) *redis.UniversalOptions {
	o := &redis.UniversalOptions{
		Addrs: t.Addrs, MasterName: t.Master, DB: t.DB, IsClusterMode: t.Kind == redisurl.Cluster,
		Username: t.Username, Password: t.Password,
		SentinelUsername: t.SentinelUsername, SentinelPassword: t.SentinelPassword,

		// A command has the deadline of its context, and is not retried: its caller decides. The breaker
		// reconnects.
		ContextTimeoutEnabled: true,
		DialTimeout:           cfg.Dial, ReadTimeout: cfg.Timeout, WriteTimeout: cfg.Timeout, PoolTimeout: cfg.Timeout,
		MaxRetries: -1, DialerRetries: 1,

		PoolSize: connections, PipelinePoolSize: -1, ConnMaxIdleTime: 5 * time.Minute,
		ReadBufferSize: 8 << 10, WriteBufferSize: 8 << 10,

		// RESP2 and a plain greeting suffice, and every version supports them.
		Protocol: 2, DisableIdentity: true,
		MaintNotificationsConfig: &maintnotifications.Config{Mode: maintnotifications.ModeDisabled},
	}
	if t.TLS {
		o.TLSConfig = &tls.Config{MinVersion: tls.VersionTLS12}
		if cfg.TLS != nil {
			o.TLSConfig = cfg.TLS.Clone()
		}
	}
	return o
}
