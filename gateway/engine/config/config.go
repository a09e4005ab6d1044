// Package config reads the configuration of OpenParallax engines: fleets with protocol: openparallax, and their
// field engine.
package config

import (
	"cmp"
	"fmt"
	"time"

	"github.com/capgate/capgate/gateway/engine"
	"github.com/capgate/capgate/gateway/engine/probe"
	"github.com/capgate/capgate/internal/call"
	"github.com/capgate/capgate/internal/config"
	"github.com/capgate/capgate/internal/lib/strictyaml"
)

// sessionTTL is how long an idle session stays pinned to its engine, which alone has it.
const sessionTTL = 720 * time.Hour

// Bounds of buffer, in bytes.
const (
	leastBuffer = 64 << 10
	mostBuffer  = 1 << 30
)

// Protocol is the protocol openparallax of the file.
func Protocol() *config.Protocol {
	return &config.Protocol{
		Name: "openparallax", Field: "engine",
		Probes: []string{probe.StatusWord, probe.ShieldWord},
		Sole:   "an engine",
		Foreign: []string{"dialect", "class", "affinity", "artifacts", "artifact_ttl", "idempotency", "idempotent", "policy",
			"manifest", "discovery", "drift_guard", "validate_arguments", "enforce_credentials", "shield", "event_source",
			"retry"},
		Settings: func(r *strictyaml.Reader) (any, strictyaml.Field) {
			s := engine.DefaultSettings()
			return s, section(r, s)
		},
		Fleet: fleet,
	}
}

// section reads the field engine.
func section(r *strictyaml.Reader, s *engine.Settings) strictyaml.Field {
	return func(at strictyaml.Place) {
		var buffer int64
		r.Mapping(at, map[string]strictyaml.Field{
			"agent":    config.Choice(r, &s.LastWins, "first-wins", "last-wins"),
			"shutdown": r.Boolean(&s.Shutdown),
			"queue":    r.Integer(&s.Queue, 0, 10_000),
			"buffer":   config.Size(r, &buffer),
			"session_modes": func(at strictyaml.Place) {
				r.Mapping(at, map[string]strictyaml.Field{"clients": numbering(r, &s.Clients),
					"engines": numbering(r, &s.Engines)})
			},
		})
		if s.Buffer = cmp.Or(int(buffer), s.Buffer); s.Buffer < leastBuffer || s.Buffer > mostBuffer {
			r.Fail(at.Child("buffer"), "must be 64KiB to 1GiB")
		}
	}
}

func numbering(r *strictyaml.Reader, to *engine.Numbering) strictyaml.Field {
	var s string
	return r.Text(&s, func(v string) string {
		n, ok := engine.ParseNumbering(v)
		*to = n
		if !ok {
			return fmt.Sprintf("%q is neither source nor seed", v)
		}
		return ""
	})
}

// fleet sets the defaults of fleets of engines: each engine keeps its sessions and has a Shield of its own.
func fleet(f *config.Fleet, given func(field string) bool) {
	f.Affinity.Sessions, f.Affinity.SharedArtifacts, f.Shield = true, true, config.NoShield
	if !given("session_ttl") {
		f.Affinity.SessionTTL = sessionTTL
	}
	f.Policy, f.Own.Affinity, f.Own.Class, f.Own.Discovery = call.Allow, true, true, true
}
