package config

import (
	"slices"
	"time"

	"go.yaml.in/yaml/v3"

	"github.com/capgate/capgate/internal/lib/strictyaml"
	"github.com/capgate/capgate/internal/registry"
)

// backend parses an address, or a mapping with one.
func (p *parser) backend(f *Fleet) strictyaml.Field {
	seen := map[string]bool{}
	return func(at strictyaml.Place) {
		b := DefaultBackend("")
		where := at
		if kindOf(at.Node) != yaml.MappingNode {
			p.Text(&b.Addr, checkBackend)(at)
		} else {
			where = at.Child("addr")
			p.Mapping(at, map[string]strictyaml.Field{
				"addr":    p.Text(&b.Addr, checkBackend),
				"weight":  p.Integer(&b.Weight, 0, 10_000),
				"zone":    p.Text(&b.Zone, checkZone),
				"session": p.Text(&b.Session, checkSession),
				"tenant":  p.Text(&b.Tenant, checkTenant),
			})
			p.reserve(at, &b)
			if b.Addr == "" {
				p.Missing(at, "addr", "required: the backend's host:port, or dns:///host:port")
			}
		}
		if b.Addr == "" {
			return
		}
		if seen[b.Addr] {
			p.Fail(where, "%s is there twice", b.Addr)
			return
		}
		seen[b.Addr] = true
		if !registry.IsName(b.Addr) {
			f.Backends = append(f.Backends, b)
			return
		}
		if name, err := registry.ParseName(b.Addr); err == nil { // checked above
			f.Names = append(f.Names, Name{name, b.Weight, b.Zone, b.Session, b.Tenant})
		}
	}
}

// reserved is a backend that serves one session. Its tenant is checked at the end, when all tenants are known.
type reserved struct {
	at strictyaml.Place
	of string
}

func (p *parser) reserve(at strictyaml.Place, b *Backend) {
	switch {
	case b.Session != "":
		p.reserved = append(p.reserved, reserved{at, b.Tenant})
	case b.Tenant != "":
		p.Fail(at.Child("tenant"), "is the tenant of the session, so it needs session")
	}
}

// checkReserved checks that the sessions of backends have a tenant, if the file has tenants.
func (p *parser) checkReserved() {
	for _, r := range p.reserved {
		switch multi := p.config.Multi; {
		case multi && r.of == "":
			p.Missing(r.at, "tenant", "required: the tenant of the session; tenants may have sessions with the same id")
		case !multi && r.of != "":
			p.Fail(r.at.Child("tenant"), "the file has no tenants; leave it out, or add tenants or identity")
		case multi && p.tenantIDs[r.of] == 0 && !p.config.Identity.Stored:
			p.Fail(r.at.Child("tenant"), "there is no tenant %s", r.of)
		}
	}
}

func kindOf(node *yaml.Node) yaml.Kind {
	if node.Kind == yaml.AliasNode {
		node = node.Alias
	}
	return node.Kind
}

func (p *parser) ejection(f *Fleet) strictyaml.Field {
	return func(at strictyaml.Place) {
		e := &f.Ejection
		standard := e.Max
		e.Max = 0
		p.Mapping(at, map[string]strictyaml.Field{
			"failures":         p.Integer(&e.Failures, 0, 1000),
			"connect_failures": p.Integer(&e.ConnectFailures, 0, 1000),
			"timeout_least":    p.Duration(&e.TimeoutLeast, 1),
			"base":             p.Duration(&e.Base, 10*time.Millisecond),
			"max":              p.Duration(&e.Max, 10*time.Millisecond),
		})
		if e.Max == 0 {
			e.Max = max(standard, e.Base)
		}
		if e.Max < e.Base {
			p.Fail(at.Child("max"), "%s is less than base, which is %s", e.Max, e.Base)
		}
	}
}

func (p *parser) queue(f *Fleet) strictyaml.Field {
	return func(at strictyaml.Place) {
		p.Mapping(at, map[string]strictyaml.Field{
			"length": p.Integer(&f.Limit.Queue, 0, 10_000),
			"wait":   p.Duration(&f.Limit.Wait, 1),
		})
	}
}

// tool parses the name of a tool, or "*", and adds it to all.
func (p *parser) tool(all *[]string) strictyaml.Field {
	return func(at strictyaml.Place) {
		var tool string
		p.Text(&tool, checkTool)(at)
		switch {
		case tool == "":
		case slices.Contains(*all, tool):
			p.Fail(at, "%s is there twice", tool)
		default:
			*all = append(*all, tool)
		}
	}
}

func (p *parser) retry(f *Fleet) strictyaml.Field {
	return func(at strictyaml.Place) {
		p.Mapping(at, map[string]strictyaml.Field{
			"share": p.Ratio(&f.Retry.Share),
			"floor": p.Integer(&f.Retry.Floor, 0, 10_000),
		})
	}
}
