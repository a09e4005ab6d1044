package config

import (
	"fmt"
	"net/netip"
	"path"
	"time"

	"github.com/capgate/capgate/internal/lib/strictyaml"
)

// backends records that the fleet has the field, which may be empty.
func (p *parser) backends(f *Fleet, given *bool) strictyaml.Field {
	read := p.List(p.backend(f))
	return func(at strictyaml.Place) {
		*given = true
		read(at)
	}
}

func (p *parser) dns(at strictyaml.Place) {
	d := &p.config.DNS
	p.Mapping(at, map[string]strictyaml.Field{
		"server": p.Text(&d.Server, func(v string) string {
			if a, err := netip.ParseAddrPort(v); err != nil || a.Port() == 0 {
				return fmt.Sprintf("%q is not a server; write ip:port, as in 10.0.0.10:53", v)
			}
			return ""
		}),
		"resolve": p.DurationUpTo(&d.Resolve, 10*time.Millisecond, time.Hour),
	})
}

func (p *parser) registration(at strictyaml.Place) {
	r := &p.config.Registration
	p.Mapping(at, map[string]strictyaml.Field{
		"allow":              p.List(p.prefix(&r.Allow)),
		"capabilities":       p.List(p.pattern),
		"policy":             p.verdict(&r.Policy),
		"manifests":          p.Boolean(&r.Manifests),
		"min_ttl":            p.DurationUpTo(&r.MinTTL, time.Second, time.Hour),
		"max":                p.Integer(&r.Max, 0, 100_000),
		"max_per_capability": p.Integer(&r.MaxPerCapability, 0, 100_000),
	})
}

func (p *parser) pattern(at strictyaml.Place) {
	var text string
	p.Text(&text, func(v string) string {
		if _, err := path.Match(v, ""); err != nil {
			return fmt.Sprintf("%q is not a pattern; write a capability's name, in which * matches any text", v)
		}
		p.config.Registration.Capabilities = append(p.config.Registration.Capabilities, v)
		return ""
	})(at)
}
