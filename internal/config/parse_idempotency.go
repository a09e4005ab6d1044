package config

import (
	"time"

	"github.com/capgate/capgate/internal/lib/strictyaml"
)

func (p *parser) idempotency(at strictyaml.Place) {
	i := &p.config.Idempotency
	p.Mapping(at, map[string]strictyaml.Field{
		"ttl":        p.DurationUpTo(&i.TTL, time.Second, 720*time.Hour),
		"max_answer": p.Integer(&i.MaxAnswer, 1, 4<<20),
		"max_keys":   p.Integer(&i.MaxKeys, 1, 1_000_000),
		"key_file":   p.names(&i.KeyFile),
	})
}

func (p *parser) keyed(f *Fleet) strictyaml.Field {
	return func(at strictyaml.Place) {
		p.Mapping(at, map[string]strictyaml.Field{"grpc": p.Boolean(&f.Keyed)})
	}
}
