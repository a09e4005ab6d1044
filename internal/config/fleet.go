package config

import (
	"cmp"

	"github.com/capgate/capgate/health"
	"github.com/capgate/capgate/internal/call"
	"github.com/capgate/capgate/internal/lib/strictyaml"
	"github.com/capgate/capgate/internal/lib/tlsfiles"
	"github.com/capgate/capgate/internal/registry"
	"github.com/capgate/capgate/internal/registry/sources"
	"github.com/capgate/capgate/internal/tenant"
	"github.com/capgate/capgate/policy/catalog"
	"github.com/capgate/capgate/router"
)

// Fleet is one capability and the backends that serve it: what router, catalog and health have of them, and the files
// that it names.
type Fleet struct {
	router.FleetConfig `yaml:",inline"`
	// Protocol of the backends. With openparallax, fields about tools and files do not apply.
	ProtocolName        string `yaml:"protocol" kind:"protocol" default:"selu"`
	catalog.Declaration `yaml:",inline"`
	sources.Fields      `yaml:",inline"`
	// Health checks of the backends.
	Health health.Config `yaml:"health"`
	// File of the capability's manifest.yaml, with its tools and recommended policies. Default the one of manifests.
	ManifestFile string `yaml:"manifest" kind:"file"`
	// true: a config_json with credentials that the manifest does not declare is rejected; needs a manifest. false:
	// config_json is not read.
	Enforce bool `yaml:"enforce_credentials" default:"false"`
	// TLS to the backends. Default cleartext.
	TLS tlsfiles.Client `yaml:"tls"`
	// Its tools over MCP.
	MCP FleetMCP `yaml:"mcp"`
	// Name of the shield that judges its calls; none: no shield. Default the file's shield.
	Shield string `yaml:"shield"`

	// Tools is true if the backends speak a protocol other than selu in which they list tools.
	Tools bool `yaml:"-"`
	// URLs is true if the addresses of backends are URLs.
	URLs bool `yaml:"-"`
	// Names are the backends with dns:///… addresses.
	Names []registry.Target `yaml:"-"`
	Own   Own               `yaml:"-"`
}

// Own are the fields that the file sets for a fleet, so that its manifest does not.
type Own struct{ Class, Affinity, MaxConcurrent, Discovery, Policy bool }

// Check notes which fields are there, and sets defaults that depend on others.
func (f *Fleet) Check(at strictyaml.At) {
	f.FleetConfig.Check(at)
	f.Own = Own{Class: at.Has("class"), Affinity: at.Has("affinity"), MaxConcurrent: at.Has("max_concurrent"),
		Discovery: at.Has("discovery"), Policy: at.Has("policy")}
	if !f.Own.Affinity {
		f.Affinity.Sessions = f.Class == call.Environment
	}
}

// FleetMCP is about the tools of a fleet over MCP.
type FleetMCP struct {
	// Beginning of the names of its tools, before two underscores, as in weather__get_forecast; none: a name is the
	// tool alone. No two fleets have the same. Default the id of the capability.
	Name string `yaml:"name" kind:"tool_prefix"`
}

// HasTools reports whether backends have tools that can be called.
func (f *Fleet) HasTools() bool { return f.Protocol == nil || f.Tools }

// noPrefix is the name of a fleet whose tools have no prefix.
const noPrefix = "none"

// ToolPrefix returns the beginning of the names of the fleet's tools over MCP; "": none.
func (f *Fleet) ToolPrefix() string {
	if f.MCP.Name == noPrefix {
		return ""
	}
	return cmp.Or(f.MCP.Name, f.Capability)
}

// checkFleets checks fleets against each other and against the rest of the file.
func (c *Config) checkFleets(at strictyaml.At) {
	manifests := c.AnnounceManifests() || len(c.Manifests) > 0
	sole, prefixes := map[string]string{}, map[string]string{}
	for i := range c.Fleets {
		f, here := &c.Fleets[i], at.Item(i)
		if p := f.ToolPrefix(); p != "" {
			if other := prefixes[p]; other != "" && other != f.Capability {
				here.Field("mcp").Fail("name",
					"the tools of %s already begin with %q; give one of the fleets another mcp.name", other, p)
			}
			prefixes[p] = f.Capability
		}
		c.applyProtocol(f, here, sole)
		f.checkUnbounded(here)
		for _, field := range []struct {
			name, use string
			on        bool
		}{{"validate_arguments", "has the schemas of the tools", f.Validate},
			{"enforce_credentials", "declares the credentials", f.Enforce}} {
			if field.on && f.ManifestFile == "" && !manifests && !f.Tools {
				here.Fail(field.name, "needs a manifest, which %s; set manifest, or manifests with its directory, or "+
					"registration.manifests, so that backends send it", field.use)
			}
		}
	}
}

// checkUnbounded checks that calls without a limit of time are not those of a capability.
func (f *Fleet) checkUnbounded(at strictyaml.At) {
	switch {
	case !f.Deadlines.Off:
	case f.Protocol != nil:
		at.Fail("deadline", "off is only for fleets of other services, and calls of engines need a limit")
	case len(f.Services) == 0 || f.ManifestFile != "":
		at.Fail("deadline", "off is only for fleets that are not capabilities: those with services, and without a "+
			"manifest")
	}
}

// takeNames takes the names for DNS out of the backends. The session of a backend without a tenant is that of the one
// tenant of a file without tenants.
func (f *Fleet) takeNames() {
	var addresses []router.BackendConfig
	for _, b := range f.Backends {
		if !registry.IsName(b.Addr) {
			if b.Session != "" {
				b.Tenant = cmp.Or(b.Tenant, tenant.Default)
			}
			addresses = append(addresses, b)
		} else if name, err := registry.ParseName(b.Addr); err == nil { // else there is an error already
			f.Names = append(f.Names, registry.Target{Capability: f.Capability, Name: name, Weight: max(b.Weight, 0),
				Zone: b.Zone, Session: b.Session, Tenant: b.Tenant})
		}
	}
	f.Backends = addresses
}

// Addrs returns the addresses of the fleet's backends.
func (f *Fleet) Addrs() []string {
	addrs := make([]string, len(f.Backends))
	for i := range f.Backends {
		addrs[i] = f.Backends[i].Addr
	}
	return addrs
}
