package config

import (
	"time"

	"github.com/capgate/capgate/internal/lib/strictyaml"
)

func (p *parser) approvals(at strictyaml.Place) {
	a := &p.config.Approvals
	p.Mapping(at, map[string]strictyaml.Field{
		"ttl":         p.DurationUpTo(&a.TTL, time.Second, 24*time.Hour),
		"session_ttl": p.DurationUpTo(&a.SessionTTL, time.Second, 720*time.Hour),
		"key_file":    p.names(&a.KeyFile),
		"webhook":     p.webhook,
		"max_pending": p.Integer(&a.MaxPending, 1, 100_000),
	})
}
