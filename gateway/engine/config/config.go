// Package config describes OpenParallax engines in the configuration: fleets with protocol: openparallax, and their
// field engine.
package config

import (
	"time"

	"github.com/capgate/capgate/gateway/engine"
	"github.com/capgate/capgate/gateway/engine/probe"
	"github.com/capgate/capgate/internal/call"
	"github.com/capgate/capgate/internal/config"
	"github.com/capgate/capgate/router"
)

// sessionTTL is how long an idle session stays pinned to its engine, which alone has it.
const sessionTTL = 720 * time.Hour

// Protocol is the protocol openparallax of the file.
func Protocol() *config.Protocol {
	return &config.Protocol{
		Name: engine.Name, Field: "engine",
		New:    func() router.Protocol { return new(engine.Settings) },
		Probes: []string{probe.StatusWord, probe.ShieldWord},
		Sole:   "an engine",
		Foreign: []string{"dialect", "class", "affinity", "artifacts", "artifact_ttl", "idempotency", "idempotent", "policy",
			"manifest", "discovery", "drift_guard", "validate_arguments", "enforce_credentials", "shield", "event_source",
			"retry"},
		Fleet: fleet,
	}
}

// Settings returns the settings of a fleet without the field engine.
func Settings() *engine.Settings {
	var s engine.Settings
	config.SetDefaults(&s)
	return &s
}

// fleet sets the defaults of fleets of engines: each engine keeps its sessions and has a Shield of its own.
func fleet(f *config.Fleet, given func(field string) bool) {
	f.Affinity.Sessions, f.Affinity.SharedArtifacts, f.Shield = true, true, config.NoShield
	if !given("session_ttl") {
		f.Affinity.SessionTTL = sessionTTL
	}
	f.Policy, f.Own.Affinity, f.Own.Class, f.Own.Discovery = call.Allow, true, true, true
}
