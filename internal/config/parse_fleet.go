package config

import (
	"fmt"
	"time"

	"github.com/capgate/capgate/internal/call"
	"github.com/capgate/capgate/internal/lib/strictyaml"
)

func (p *parser) fleet(at strictyaml.Place) {
	f := DefaultFleet("")
	var sessions string
	var probe strictyaml.Place
	given, guard := false, true
	fields := map[string]strictyaml.Field{
		"capability":     p.capability(&f),
		"services":       p.List(p.service(&f)),
		"methods":        p.List(p.method(&f)),
		"backends":       p.backends(&f, &given),
		"dialect":        p.dialect(&f),
		"class":          p.class(&f),
		"affinity":       p.affinity(&sessions),
		"session_ttl":    p.period(&f.Affinity.SessionTTL),
		"artifacts":      p.artifacts(&f),
		"artifact_ttl":   p.period(&f.Affinity.ArtifactTTL),
		"deadline":       p.deadline(&f),
		"health":         p.health(&f, &probe),
		"ejection":       p.ejection(&f),
		"retry":          p.retry(&f),
		"idempotency":    p.keyed(&f),
		"idempotent":     p.List(p.tool(&f.Idempotent)),
		"max_concurrent": p.Integer(&f.Limit.MaxConcurrent, 0, 100_000),
		"queue":          p.queue(&f),
		"slow_start":     p.Duration(&f.SlowStart, 0),
		"policy":         p.verdict(&f.Policy),

		"validate_arguments":  p.Boolean(&f.Validate),
		"enforce_credentials": p.Boolean(&f.Enforce),
		"manifest":            p.names(&f.Manifest),
		"discovery":           p.discovery(&f),
		"drift_guard":         p.Boolean(&guard),
		"tls":                 p.backendTLS(&f.TLS),
		"shield":              p.shieldName(&f.Shield),
		"event_source":        p.List(p.tool(&f.EventSource)),

		"protocol": p.backendProtocol(&f),
	}
	settings := p.settingsOf(fields)
	p.Mapping(at, fields)
	f.Unguarded = !guard
	f.Own = Own{Class: at.Has("class"), Affinity: at.Has("affinity"), MaxConcurrent: at.Has("max_concurrent"),
		Deadline: at.Has("deadline"), Discovery: at.Has("discovery")}
	f.Affinity.Sessions = sessions == "session" || sessions == "" && f.Class == call.Environment
	p.applyProtocol(at, probe, &f, settings)
	if f.Capability == "" {
		p.Missing(at, "capability", "required: the id of the capability in calls")
	}
	if !given {
		p.Missing(at, "backends", "required: host:port or dns:///host:port each; [] if all register themselves")
	}
	if f.Manifest == "" {
		p.requireManifest(f.Validate, at.Child("validate_arguments"), "has the schemas of the tools")
		p.requireManifest(f.Enforce, at.Child("enforce_credentials"), "declares the credentials")
	}
	p.config.Fleets = append(p.config.Fleets, f)
}

func (p *parser) capability(f *Fleet) strictyaml.Field {
	return func(at strictyaml.Place) {
		p.Text(&f.Capability, checkCapability)(at)
		if f.Capability == "" {
			return
		}
		if line, twice := p.capabilities[f.Capability]; twice {
			p.Fail(at, "%s already has a fleet, in line %d; put all its backends there", f.Capability, line)
			return
		}
		p.capabilities[f.Capability] = at.Node.Line
	}
}

func (p *parser) service(f *Fleet) strictyaml.Field {
	return func(at strictyaml.Place) {
		var service string
		p.Text(&service, checkService)(at)
		if service == "" {
			return
		}
		if first, twice := p.services[service]; twice {
			p.Fail(at, "%s is already at %s; a service belongs to one fleet", service, first)
			return
		}
		p.services[service] = at.Path
		f.Services = append(f.Services, service)
	}
}

func (p *parser) method(f *Fleet) strictyaml.Field {
	return func(at strictyaml.Place) {
		var method string
		p.Text(&method, checkMethod)(at)
		if method != "" {
			f.Methods = append(f.Methods, method)
		}
	}
}

func (p *parser) dialect(f *Fleet) strictyaml.Field {
	var s string
	return p.Text(&s, func(v string) string {
		d, ok := call.ParseDialect(v)
		if !ok {
			return fmt.Sprintf("%q is not a dialect; it must be auto, doc, live or legacy", v)
		}
		f.Dialect = d
		return ""
	})
}

func (p *parser) deadline(f *Fleet) strictyaml.Field {
	return func(at strictyaml.Place) {
		d := &f.Deadline
		standard := d.Default
		d.Default = 0
		p.Mapping(at, map[string]strictyaml.Field{
			"default": p.Duration(&d.Default, 1),
			"max":     p.Duration(&d.Max, 1),
			"stream":  p.Duration(&d.Stream, 1),
		})
		if d.Default == 0 {
			d.Default = min(standard, d.Max)
		}
		if d.Default > d.Max {
			p.Fail(at.Child("default"), "%s is more than max, which is %s", d.Default, d.Max)
		}
	}
}

// health parses the health checks. The words for probe depend on the protocol, which is known at the end of the
// fleet.
func (p *parser) health(f *Fleet, probe *strictyaml.Place) strictyaml.Field {
	return func(at strictyaml.Place) {
		h := &f.Health
		standard := h.Timeout
		h.Timeout = 0
		p.Mapping(at, map[string]strictyaml.Field{
			"interval": p.Duration(&h.Interval, 10*time.Millisecond),
			"timeout":  p.Duration(&h.Timeout, 1),
			"jitter":   p.Share(&h.Jitter),
			"probe":    func(at strictyaml.Place) { *probe = at },
			"rise":     p.Integer(&h.Rise, 1, 100),
			"fall":     p.Integer(&h.Fall, 1, 100),
		})
		if h.Timeout == 0 {
			h.Timeout = min(standard, h.Interval)
		}
		if h.Timeout > h.Interval {
			p.Fail(at.Child("timeout"), "%s is more than interval, which is %s", h.Timeout, h.Interval)
		}
	}
}

func (p *parser) discovery(f *Fleet) strictyaml.Field {
	return func(at strictyaml.Place) {
		p.Mapping(at, map[string]strictyaml.Field{
			"interval": p.DurationUpTo(&f.Discovery.Interval, time.Second, 24*time.Hour),
			"timeout":  p.DurationUpTo(&f.Discovery.Timeout, 10*time.Millisecond, 2*time.Minute),
		})
	}
}

func (p *parser) backendTLS(t *BackendTLS) strictyaml.Field {
	return func(at strictyaml.Place) {
		t.Enabled = true
		p.Mapping(at, map[string]strictyaml.Field{
			"ca_file":     p.names(&t.CAFile),
			"cert_file":   p.names(&t.CertFile),
			"key_file":    p.names(&t.KeyFile),
			"server_name": p.Text(&t.ServerName, checkServerName),
			"insecure":    p.Boolean(&t.Insecure),
		})
		if (t.CertFile == "") != (t.KeyFile == "") {
			p.Fail(at, "cert_file and key_file belong together; give both or neither")
		}
		if t.Insecure && t.CAFile != "" {
			p.Fail(at.Child("insecure"), "true accepts any certificate, so ca_file has no effect; give one of the two")
		}
	}
}

func (p *parser) verdict(to *call.Verdict) strictyaml.Field {
	var s string
	return p.Text(&s, func(v string) string {
		verdict, ok := call.ParseVerdict(v)
		if !ok {
			return fmt.Sprintf("%q is not a policy; it must be allow, ask or block", v)
		}
		*to = verdict
		return ""
	})
}
