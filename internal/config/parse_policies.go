package config

import (
	"time"

	"github.com/capgate/capgate/internal/lib/strictyaml"
)

func (p *parser) policies(at strictyaml.Place) {
	r := &p.config.Policies
	r.Enabled = true
	p.Mapping(at, map[string]strictyaml.Field{
		"cache":     p.Integer(&r.Cache, 16, 10_000_000),
		"ttl":       p.DurationUpTo(&r.TTL, time.Second, time.Hour),
		"shadow":    p.Boolean(&r.Shadow),
		"max_stale": p.DurationUpTo(&r.MaxStale, 10*time.Second, 24*time.Hour),
	})
}
