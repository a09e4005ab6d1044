package config

import (
	"fmt"
	"slices"
	"time"

	"github.com/capgate/capgate/internal/call"
)

func (p *parser) fleet(at place) {
	f := DefaultFleet("")
	var sessions string
	given := false
	p.mapping(at, map[string]field{
		"capability":     p.capability(&f),
		"services":       p.list(p.service(&f)),
		"backends":       p.backends(&f, &given),
		"dialect":        p.dialect(&f),
		"class":          p.class(&f),
		"affinity":       p.affinity(&sessions),
		"session_ttl":    p.period(&f.Affinity.SessionTTL),
		"artifacts":      p.artifacts(&f),
		"artifact_ttl":   p.period(&f.Affinity.ArtifactTTL),
		"deadline":       p.deadline(&f),
		"health":         p.health(&f),
		"ejection":       p.ejection(&f),
		"retry":          p.retry(&f),
		"idempotent":     p.list(p.tool(&f)),
		"max_concurrent": p.integer(&f.Limit.MaxConcurrent, 0, 100_000),
		"queue":          p.queue(&f),
		"slow_start":     p.duration(&f.SlowStart, 0),
		"policy":         p.text(&f.Policy, checkPolicy),
		"tls":            p.backendTLS(&f),
	})
	f.Affinity.Sessions = sessions == "session" || sessions == "" && f.Class == call.Environment
	if f.Capability == "" {
		p.missing(at, "capability", "needed: the id under which callers name this fleet")
	}
	if !given {
		p.missing(at, "backends", "needed: host:port or dns:///host:port each; [] where all register themselves")
	}
	p.config.Fleets = append(p.config.Fleets, f)
}

func (p *parser) capability(f *Fleet) field {
	return func(at place) {
		p.text(&f.Capability, checkCapability)(at)
		if f.Capability == "" {
			return
		}
		if line, twice := p.capabilities[f.Capability]; twice {
			p.fail(at, "%s has a fleet already, in line %d; put all its backends there", f.Capability, line)
			return
		}
		p.capabilities[f.Capability] = at.node.Line
	}
}

func (p *parser) service(f *Fleet) field {
	return func(at place) {
		var service string
		p.text(&service, checkService)(at)
		if service == "" {
			return
		}
		if first, twice := p.services[service]; twice {
			p.fail(at, "%s is given already at %s; a service belongs to one fleet", service, first)
			return
		}
		p.services[service] = at.path
		f.Services = append(f.Services, service)
	}
}

func (p *parser) dialect(f *Fleet) field {
	var s string
	return p.text(&s, func(v string) string {
		d, ok := call.ParseDialect(v)
		switch {
		case !ok:
			return fmt.Sprintf("%q is not a dialect; it must be auto, doc or live", v)
		case d == call.Legacy:
			return "legacy is not supported yet; it must be auto, doc or live"
		}
		f.Dialect = d
		return ""
	})
}

func (p *parser) deadline(f *Fleet) field {
	return func(at place) {
		d := &f.Deadline
		standard := d.Default
		d.Default = 0
		p.mapping(at, map[string]field{
			"default": p.duration(&d.Default, 1),
			"max":     p.duration(&d.Max, 1),
			"stream":  p.duration(&d.Stream, 1),
		})
		if d.Default == 0 {
			d.Default = min(standard, d.Max)
		}
		if d.Default > d.Max {
			p.fail(at.child("default"), "%s is more than max, which is %s", d.Default, d.Max)
		}
	}
}

func (p *parser) health(f *Fleet) field {
	return func(at place) {
		h := &f.Health
		standard := h.Timeout
		h.Timeout = 0
		p.mapping(at, map[string]field{
			"interval": p.duration(&h.Interval, 10*time.Millisecond),
			"timeout":  p.duration(&h.Timeout, 1),
			"jitter":   p.share(&h.Jitter),
			"rise":     p.integer(&h.Rise, 1, 100),
			"fall":     p.integer(&h.Fall, 1, 100),
		})
		if h.Timeout == 0 {
			h.Timeout = min(standard, h.Interval)
		}
		if h.Timeout > h.Interval {
			p.fail(at.child("timeout"), "%s is more than interval, which is %s", h.Timeout, h.Interval)
		}
	}
}

func (p *parser) backendTLS(f *Fleet) field {
	return func(at place) {
		t := &f.TLS
		t.Enabled = true
		p.mapping(at, map[string]field{
			"ca_file":     p.text(&t.CAFile, nil),
			"cert_file":   p.text(&t.CertFile, nil),
			"key_file":    p.text(&t.KeyFile, nil),
			"server_name": p.text(&t.ServerName, checkServerName),
			"insecure":    p.boolean(&t.Insecure),
		})
		if (t.CertFile == "") != (t.KeyFile == "") {
			p.fail(at, "cert_file and key_file belong together; give both or neither")
		}
		if t.Insecure && t.CAFile != "" {
			p.fail(at.child("insecure"), "true takes any certificate, so ca_file would mean nothing; give one of the two")
		}
	}
}

// checkPolicy takes no promise that this version does not keep: a fleet that says
// block must not be open.
func checkPolicy(v string) string {
	switch {
	case v == "allow":
		return ""
	case slices.Contains([]string{"ask", "block"}, v):
		return v + ` is not supported yet: this version allows every call; write "allow" if that is meant`
	default:
		return fmt.Sprintf("%q is not a policy; it must be allow", v)
	}
}
