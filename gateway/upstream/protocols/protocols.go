// Package protocols lists the protocols of backends other than Selu's.
package protocols

import (
	"time"

	"github.com/capgate/capgate/gateway/engine"
	engineprobe "github.com/capgate/capgate/gateway/engine/probe"
	"github.com/capgate/capgate/gateway/upstream"
	"github.com/capgate/capgate/gateway/upstream/grpcservice"
	"github.com/capgate/capgate/gateway/upstream/mcp"
	"github.com/capgate/capgate/health"
	"github.com/capgate/capgate/internal/call"
	"github.com/capgate/capgate/internal/config"
	"github.com/capgate/capgate/internal/lib/strictyaml"
	"github.com/capgate/capgate/internal/lib/weburl"
	"github.com/capgate/capgate/router"
)

// Protocol is a protocol of backends. The zero value is Selu's: the relay reaches the backends, and Healthcheck probes
// them.
type Protocol struct {
	config.Protocol // name and settings in the configuration

	// Probe returns the health check of backends that the relay reaches, for a value of health.probe.
	Probe func(word string) health.Question
	// Open returns the Backends that are served in the process; nil means the relay reaches them over gRPC.
	Open func(upstream.Options) upstream.Backends
	// Read completes a fleet with the content of the files named by its settings. before is the fleet as last read, or
	// nil. Read is required with Open.
	Read func(f, before *upstream.Fleet, files upstream.Files) error
}

// All returns the protocols.
func All() []Protocol {
	return []Protocol{
		{Protocol: config.Protocol{
			Name: engine.Name, Field: "engine", New: func() router.Protocol { return new(engine.Settings) },
			Probes: []string{engineprobe.StatusWord, engineprobe.ShieldWord}, Sole: "an engine", Fleet: engineFleet,
			Foreign: []string{"dialect", "class", "affinity", "artifacts", "artifact_ttl", "idempotency", "idempotent",
				"policy", "manifest", "discovery", "drift_guard", "validate_arguments", "enforce_credentials", "shield",
				"event_source", "retry"},
		}, Probe: engineprobe.Of},
		{Protocol: config.Protocol{
			Name: mcp.Name, Field: "mcp_server", New: func() router.Protocol { return new(mcp.Settings) },
			URLs: true, Tools: true, Fleet: toolsFleet, Foreign: foreignToTools(), Check: checkOAuth,
		}, Open: mcp.Open, Read: mcp.Read},
		{Protocol: config.Protocol{
			Name: grpcservice.Name, Field: "grpc_service", New: func() router.Protocol {
				return new(grpcservice.Settings)
			},
			Tools: true, Fleet: toolsFleet, Foreign: foreignToTools(),
			Needs: "the list of methods that are tools; write grpc_service: {methods: [package.Service/Method]}",
		}, Open: grpcservice.Open, Read: grpcservice.Read},
	}
}

// foreignToTools returns the fields of a fleet that have no effect if backends list tools.
func foreignToTools() []string {
	return []string{"dialect", "services", "methods", "artifacts", "artifact_ttl", "manifest", "enforce_credentials"}
}

// toolsFleet sets the fixed fields of fleets whose backends list tools: they have no artifacts.
func toolsFleet(f *config.Fleet, _ func(string) bool) {
	f.Dialect, f.Affinity.Artifacts = call.Doc, false
}

// checkOAuth checks the servers that receive access tokens: a login is for one server, and no token goes in cleartext.
func checkOAuth(f *config.Fleet, at strictyaml.At) {
	s := f.Protocol.(*mcp.Settings).OAuth
	if s.NeedsLogin() && (len(f.Backends) != 1 || f.Found()) {
		at.Fail("backends", "must be one URL, to which operators log in, with oauth.grant: authorization_code")
	}
	for i := 0; i < len(f.Backends) && s != nil; i++ {
		if u, err := weburl.Parse(f.Backends[i].Addr, ""); err == nil && weburl.IsCleartext(u) {
			at.Field("backends").Item(i).Fail("", "is cleartext HTTP, and oauth sends access tokens over https alone; "+
				"only a loopback address may have http")
		}
	}
}

// engineSessionTTL is the time for which an idle session stays pinned to its engine, which alone has it.
const engineSessionTTL = 720 * time.Hour

// engineFleet sets the defaults of fleets of engines: each engine keeps its own sessions and has its own Shield.
func engineFleet(f *config.Fleet, isSet func(field string) bool) {
	f.Affinity.Sessions, f.Affinity.Artifacts, f.Shield = true, false, config.NoShield
	if !isSet("session_ttl") {
		f.Affinity.SessionTTL = engineSessionTTL
	}
	f.Policy, f.Own.Affinity, f.Own.Class, f.Own.Discovery = call.Allow, true, true, true
}

// Of returns the protocol of a fleet.
func Of(f *config.Fleet) Protocol {
	for _, p := range All() {
		if p.Name == f.ProtocolName {
			return p
		}
	}
	return Protocol{}
}

// DefaultFleet returns a fleet with the defaults of a protocol, which needs no settings. "": Selu's.
func DefaultFleet(capability, protocol string) config.Fleet {
	f := config.DefaultFleet(capability)
	for _, p := range All() {
		if p.Name == protocol {
			f.ProtocolName, f.Protocol, f.Tools, f.URLs = p.Name, p.New(), p.Tools, p.URLs
			config.SetDefaults(f.Protocol)
			p.Fleet(&f, func(string) bool { return false })
		}
	}
	return f
}

// Config returns the protocols for config.Parse.
func Config() (all []*config.Protocol) {
	for _, p := range All() {
		all = append(all, &p.Protocol)
	}
	return all
}

// Open opens all protocols whose backends are served in the process.
func Open(o upstream.Options) upstream.Protocols {
	opened := upstream.Protocols{}
	for _, p := range All() {
		if p.Open != nil {
			opened[p.Name] = p.Open(o)
		}
	}
	return opened
}
