package config

import (
	"cmp"
	"time"

	"github.com/capgate/capgate/internal/call"
	"github.com/capgate/capgate/internal/lib/strictyaml"
)

// DefaultEngine is how engines are guarded of which the file says nothing more.
func DefaultEngine() *call.Engine { return &call.Engine{Queue: 100, Buffer: 4 << 20} }

// engineSessionTTL is how long a session keeps its engine without a call: it is nowhere else.
const engineSessionTTL = 720 * time.Hour

const (
	leastBuffer = 64 << 10
	mostBuffer  = 1 << 30
)

// choice is one of two words, of which the second is true.
func (p *parser) choice(to *bool, no, yes string) strictyaml.Field {
	var s string
	return p.Text(&s, func(v string) string {
		*to = v == yes
		return unless(v == no || v == yes, "%q is neither %s nor %s", v, no, yes)
	})
}

func (p *parser) protocol(f *Fleet) strictyaml.Field {
	var engines bool
	read := p.choice(&engines, "selu", "openparallax")
	return func(at strictyaml.Place) {
		if read(at); engines {
			f.Engine = DefaultEngine()
		}
	}
}

func (p *parser) engine(e *call.Engine) strictyaml.Field {
	return func(at strictyaml.Place) {
		var buffer int64
		p.Mapping(at, map[string]strictyaml.Field{
			"agent":    p.choice(&e.LastWins, "first-wins", "last-wins"),
			"shutdown": p.Boolean(&e.Shutdown),
			"queue":    p.Integer(&e.Queue, 0, 10_000),
			"buffer":   p.size(&buffer),
			"session_modes": func(at strictyaml.Place) {
				p.Mapping(at, map[string]strictyaml.Field{"clients": p.numbering(&e.Clients), "engines": p.numbering(&e.Engines)})
			},
		})
		if e.Buffer = cmp.Or(int(buffer), e.Buffer); e.Buffer < leastBuffer || e.Buffer > mostBuffer {
			p.Fail(at.Child("buffer"), "must be 64KiB to 1GiB")
		}
	}
}

func (p *parser) numbering(to *call.Numbering) strictyaml.Field {
	var s string
	return p.Text(&s, func(v string) string {
		n, ok := call.ParseNumbering(v)
		*to = n
		return unless(ok, "%q is neither source nor seed", v)
	})
}

// ofEngines goes on with a fleet once it is known whether it is one of engines.
func (p *parser) ofEngines(at strictyaml.Place, f *Fleet, e *call.Engine) {
	if f.Engine == nil {
		if at.Has("engine") {
			p.Fail(at.Child("engine"), "is for fleets with protocol: openparallax")
		}
		if at.Has("health") && at.Child("health").Has("probe") {
			p.Fail(at.Child("health").Child("probe"), "is for fleets with protocol: openparallax")
		}
		return
	}
	f.Engine = e
	for _, field := range [...]string{"dialect", "class", "affinity", "artifacts", "artifact_ttl", "idempotency", "idempotent", "policy", "manifest",
		"discovery", "drift_guard", "validate_arguments", "enforce_credentials", "shield", "event_source", "retry"} {
		if at.Has(field) {
			p.Fail(at.Child(field), "means nothing with protocol: openparallax")
		}
	}
	f.Affinity.Sessions, f.Affinity.SharedArtifacts, f.Shield = true, true, noShield
	if !at.Has("session_ttl") {
		f.Affinity.SessionTTL = engineSessionTTL
	}
	f.Policy, f.Own.Affinity, f.Own.Class, f.Own.Discovery = call.Allow, true, true, true
	for i := range f.Backends {
		p.oneFleet(at, f, f.Backends[i].Addr)
	}
}

// oneFleet refuses an engine that two fleets have: each would let its calls in one at a time.
func (p *parser) oneFleet(at strictyaml.Place, f *Fleet, addr string) {
	if other, twice := p.engines[addr]; twice && other != f.Capability {
		p.Fail(at.Child("backends"), "%s is an engine of the fleet %s already", addr, other)
		return
	}
	p.engines[addr] = f.Capability
}
