package config

import (
	"time"

	"github.com/capgate/capgate/internal/lib/strictyaml"
)

func (p *parser) identity(at strictyaml.Place) {
	i := &p.config.Identity
	var store string
	p.Mapping(at, map[string]strictyaml.Field{
		"store": p.Text(&store, func(v string) string {
			return unless(v == "redis" || v == "none", "%q is not known; it must be redis or none", v)
		}),
		"cache":     p.Integer(&i.Cache, 1000, 10_000_000),
		"ttl":       p.DurationUpTo(&i.TTL, time.Second, time.Hour),
		"max_stale": p.DurationUpTo(&i.MaxStale, 10*time.Second, 24*time.Hour),
	})
	if i.Stored = store == "redis"; i.Stored {
		p.config.Multi = true
	}
}
