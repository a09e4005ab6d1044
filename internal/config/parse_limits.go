package config

import (
	"fmt"

	"github.com/capgate/capgate/internal/lib/strictyaml"
	"github.com/capgate/capgate/internal/tenant"
)

// limits parses a block of limits. Errors between its fields have the place of the block, or of an item of each.
func (p *parser) limits(to *tenant.Limits) strictyaml.Field {
	return func(at strictyaml.Place) {
		before := len(p.Errors)
		fields := p.bounds(&to.Bounds)
		fields["bytes_per_second"] = p.size(&to.BytesPerSecond)
		fields["artifact_size"] = p.size(&to.ArtifactSize)
		fields["messages"] = p.many64(&to.Messages)
		fields["shadow"] = p.Boolean(&to.Shadow)
		fields["each"] = p.List(func(at strictyaml.Place) {
			var l tenant.Limit
			fields := p.bounds(&l.Bounds)
			fields["per"] = p.Text(&l.Per, nil)
			fields["capability"] = p.Text(&l.Capability, func(v string) string {
				if v == "*" {
					return ""
				}
				return checkCapability(v)
			})
			fields["tool"] = p.Text(&l.Tool, checkTool)
			before := len(p.Errors)
			p.Mapping(at, fields)
			if err := l.CheckNew(to.Each); err != nil && len(p.Errors) == before {
				p.Fail(at, "%s", err)
			}
			to.Each = append(to.Each, l)
		})
		p.Mapping(at, fields)
		if err := to.CheckNew(); err != nil && len(p.Errors) == before {
			p.Fail(at, "%s", err)
		}
	}
}

func (p *parser) bounds(b *tenant.Bounds) map[string]strictyaml.Field {
	return map[string]strictyaml.Field{
		"calls_per_second": p.many(&b.CallsPerSecond),
		"burst":            p.many(&b.Burst),
		"concurrent":       p.many(&b.Concurrent),
		"per_day":          p.many(&b.PerDay),
		"per_month":        p.many(&b.PerMonth),
	}
}

func (p *parser) many(to *int) strictyaml.Field { return p.Integer(to, 1, tenant.MaxCalls) }

func (p *parser) many64(to *int64) strictyaml.Field {
	var n int
	return func(at strictyaml.Place) {
		p.many(&n)(at)
		*to = int64(n)
	}
}

// size parses a number of bytes.
func (p *parser) size(to *int64) strictyaml.Field { return Size(&p.Reader, to) }

// Size parses a number of bytes, with or without a unit.
func Size(r *strictyaml.Reader, to *int64) strictyaml.Field {
	var text string
	return r.Text(&text, func(v string) string {
		n, ok := tenant.ParseSize(v)
		if !ok || n == 0 {
			return fmt.Sprintf("%q is not a size; write a number of bytes with or without a unit, as in 10MiB, "+
				"1.5GB or 4096", v)
		}
		*to = n
		return ""
	})
}
