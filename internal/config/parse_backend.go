package config

import (
	"slices"
	"time"

	"go.yaml.in/yaml/v3"

	"github.com/capgate/capgate/internal/registry"
)

// backend reads an address, or a mapping that has one.
func (p *parser) backend(f *Fleet) field {
	seen := map[string]bool{}
	return func(at place) {
		b := DefaultBackend("")
		where := at
		if kindOf(at.node) != yaml.MappingNode {
			p.text(&b.Addr, checkBackend)(at)
		} else {
			where = at.child("addr")
			p.mapping(at, map[string]field{
				"addr":    p.text(&b.Addr, checkBackend),
				"weight":  p.integer(&b.Weight, 0, 10_000),
				"zone":    p.text(&b.Zone, checkZone),
				"session": p.text(&b.Session, checkSession),
			})
			if b.Addr == "" {
				p.missing(at, "addr", "needed: the backend's host:port, or dns:///host:port")
			}
		}
		if b.Addr == "" {
			return
		}
		if seen[b.Addr] {
			p.fail(where, "%s is given twice", b.Addr)
			return
		}
		seen[b.Addr] = true
		if !registry.IsName(b.Addr) {
			f.Backends = append(f.Backends, b)
			return
		}
		if name, err := registry.ParseName(b.Addr); err == nil { // checked above
			f.Names = append(f.Names, Name{name, b.Weight, b.Zone, b.Session})
		}
	}
}

func kindOf(node *yaml.Node) yaml.Kind {
	if node.Kind == yaml.AliasNode {
		node = node.Alias
	}
	return node.Kind
}

func (p *parser) ejection(f *Fleet) field {
	return func(at place) {
		e := &f.Ejection
		standard := e.Max
		e.Max = 0
		p.mapping(at, map[string]field{
			"failures":         p.integer(&e.Failures, 0, 1000),
			"connect_failures": p.integer(&e.ConnectFailures, 0, 1000),
			"timeout_least":    p.duration(&e.TimeoutLeast, 1),
			"base":             p.duration(&e.Base, 10*time.Millisecond),
			"max":              p.duration(&e.Max, 10*time.Millisecond),
		})
		if e.Max == 0 {
			e.Max = max(standard, e.Base)
		}
		if e.Max < e.Base {
			p.fail(at.child("max"), "%s is less than base, which is %s", e.Max, e.Base)
		}
	}
}

func (p *parser) queue(f *Fleet) field {
	return func(at place) {
		p.mapping(at, map[string]field{
			"length": p.integer(&f.Limit.Queue, 0, 10_000),
			"wait":   p.duration(&f.Limit.Wait, 1),
		})
	}
}

// tool reads the name of an idempotent tool.
func (p *parser) tool(f *Fleet) field {
	return func(at place) {
		var tool string
		p.text(&tool, checkTool)(at)
		switch {
		case tool == "":
		case slices.Contains(f.Idempotent, tool):
			p.fail(at, "%s is given twice", tool)
		default:
			f.Idempotent = append(f.Idempotent, tool)
		}
	}
}

func (p *parser) retry(f *Fleet) field {
	return func(at place) {
		p.mapping(at, map[string]field{
			"share": p.ratio(&f.Retry.Share),
			"floor": p.integer(&f.Retry.Floor, 0, 10_000),
		})
	}
}
