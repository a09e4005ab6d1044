package config

import (
	"time"

	"go.yaml.in/yaml/v3"

	"github.com/capgate/capgate/internal/lib/strictyaml"
)

// overload parses off, or a mapping of limits in place of the computed ones.
func (p *parser) overload(at strictyaml.Place) {
	o := &p.config.Overload
	if kindOf(at.Node) != yaml.MappingNode {
		var word string
		p.Text(&word, func(v string) string {
			return unless(v == "off", "%q is not possible; it must be off, or have max_in_flight, max_memory or max_delay", v)
		})(at)
		o.Off = true
		return
	}
	p.Mapping(at, map[string]strictyaml.Field{
		"max_in_flight": p.Integer(&o.MaxInFlight, 1, 100_000_000),
		"max_memory":    p.size(&o.MaxMemory),
		"max_delay":     p.DurationUpTo(&o.MaxDelay, 100*time.Microsecond, 10*time.Second),
	})
}
