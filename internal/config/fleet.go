package config

import (
	"cmp"
	"time"

	"github.com/capgate/capgate/health"
	"github.com/capgate/capgate/internal/call"
	"github.com/capgate/capgate/internal/lib/strictyaml"
	"github.com/capgate/capgate/internal/registry"
	"github.com/capgate/capgate/router"
)

// Fleet is one capability and the backends that serve it.
type Fleet struct {
	// ID of the capability in calls: lower-case letters, digits and hyphens, at most 63.
	Capability string `yaml:"capability" kind:"capability" required:"" unique:"true"`
	// Protocol of the backends. With openparallax, fields about tools and files do not apply.
	Protocol string `yaml:"protocol" kind:"protocol" default:"selu"`
	// Addresses of the backends: host:port, dns:///host:port, with protocol: mcp a URL, or a mapping each; [] if all
	// register themselves.
	Backends []Backend `yaml:"backends" required:""`
	// gRPC services whose calls use this fleet if they name no capability: package.Service. A service belongs to one
	// fleet.
	Services []string `yaml:"services" kind:"service" unique:"service"`
	// gRPC methods of the backends besides those of the dialects and of services: package.Service/Method or
	// package.Service/*. All others are rejected.
	Methods []string `yaml:"methods" kind:"method"`
	// Dialect of the backends; auto: ask them.
	Dialect call.Dialect `yaml:"dialect" default:"auto"`
	// tool answers each call by itself; environment keeps state between the calls of a session.
	Class call.Class `yaml:"class" default:"tool"`
	// Binding of sessions and files to backends.
	Affinity Affinity `yaml:",inline"`
	// Deadlines of calls. off is for fleets with services that are not capabilities: only a caller's own deadline ends
	// calls of these services.
	Deadline Deadline `yaml:"deadline"`
	// Health checks of the backends.
	Health Health `yaml:"health"`
	// Outlier detection by the results of calls. A tool's own error never counts, nor does a canceled call. At most
	// half of a fleet is ejected at once, and all but one of the backends that refuse connections.
	Ejection Ejection `yaml:"ejection"`
	// Retry budget. A call is retried only if it provably did not start, or, once, if its tool is idempotent and no
	// response has begun. A call without a connection needs no budget.
	Retry Retry `yaml:"retry"`
	// Tools that may run twice for one call, so that a call may be retried although a lost backend may have begun it.
	// "*": all tools, and every other call but uploads.
	Idempotent []string `yaml:"idempotent" kind:"tool" unique:"true"`
	// Calls with an idempotency key.
	Idempotency FleetIdempotency `yaml:"idempotency"`
	// Tools that may be called with GET too, as a browser's EventSource does. They must have no side effects, because
	// browsers may repeat GET requests; "*": all.
	EventSource []string `yaml:"event_source" kind:"tool" unique:"true"`
	// Concurrent calls of each backend, of all replicas together; 0: no limit.
	MaxConcurrent int `yaml:"max_concurrent" min:"0" max:"100000" default:"0"`
	// Calls that wait for a backend. Further calls are rejected.
	Queue Queue `yaml:"queue"`
	// Time in which the share of calls of a new or returning backend grows to its full size; 0s: at once.
	SlowStart time.Duration `yaml:"slow_start" default:"30s"`
	// Policy for tools without a rule or a recommendation of the manifest.
	Policy call.Verdict `yaml:"policy" default:"block"`
	// How long a call that needs a person's approval waits for the answer, unless its caller says so: with Prefer: wait
	// or x-approval-wait. It waits for three quarters of the time until its deadline at most; 0s: not at all.
	ApprovalWait time.Duration `yaml:"approval_wait" min:"0" max:"10m" default:"0s"`
	// File of the capability's manifest.yaml, with its tools and recommended policies. Default the one of manifests.
	Manifest string `yaml:"manifest" kind:"file"`
	// true: the arguments of each call are checked against the input_schema of its tool, before it goes to a backend;
	// needs a manifest.
	Validate bool `yaml:"validate_arguments" default:"false"`
	// true: a config_json with credentials that the manifest does not declare is rejected; needs a manifest. false:
	// config_json is not read.
	Enforce bool `yaml:"enforce_credentials" default:"false"`
	// true: calls of a tool whose description or schema has changed need approval, if they would be allowed, until an
	// operator accepts it.
	DriftGuard bool `yaml:"drift_guard" default:"true"`
	// Calls of the discovery tool of a manifest with tool_source: dynamic. One replica makes them, also when the fleet
	// becomes healthy.
	Discovery Discovery `yaml:"discovery"`
	// TLS to the backends. Default cleartext.
	TLS BackendTLS `yaml:"tls"`
	// Its tools over MCP.
	MCP FleetMCP `yaml:"mcp"`
	// Name of the shield that judges its calls; none: no shield. Default the file's shield.
	Shield string `yaml:"shield"`

	// Settings is the field of its Protocol; nil: selu.
	Settings router.Protocol `yaml:",extra"`
	// Tools says that backends of its Protocol, which is not selu, list tools.
	Tools bool `yaml:"-"`
	// Names are the backends with dns:///… addresses.
	Names []registry.Target `yaml:"-"`
	Own   Own               `yaml:"-"`
}

// Own are the fields that the file sets for a fleet, so that its manifest does not.
type Own struct{ Class, Affinity, MaxConcurrent, Discovery, Policy bool }

// Check notes which fields are there, and sets defaults that depend on others.
func (f *Fleet) Check(at strictyaml.At) {
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
func (f *Fleet) HasTools() bool { return f.Settings == nil || f.Tools }

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
	manifests := c.Registration.Manifests || len(c.Manifests) > 0
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
			if field.on && f.Manifest == "" && !manifests && !f.Tools {
				here.Fail(field.name, "needs a manifest, which %s; set manifest, or manifests with its directory, or "+
					"registration.manifests, so that backends send it", field.use)
			}
		}
	}
}

// checkUnbounded checks that calls without a limit of time are not those of a capability.
func (f *Fleet) checkUnbounded(at strictyaml.At) {
	switch {
	case !f.Deadline.Off:
	case f.Settings != nil:
		at.Fail("deadline", "off is only for fleets of other services, and calls of engines need a limit")
	case len(f.Services) == 0 || f.Manifest != "":
		at.Fail("deadline", "off is only for fleets that are not capabilities: those with services, and without a "+
			"manifest")
	}
}

// takeNames takes the names for DNS out of the backends.
func (f *Fleet) takeNames() {
	var addresses []Backend
	for _, b := range f.Backends {
		if !registry.IsName(b.Addr) {
			addresses = append(addresses, b)
		} else if name, err := registry.ParseName(b.Addr); err == nil { // else there is an error already
			f.Names = append(f.Names, registry.Target{Capability: f.Capability, Name: name, Weight: b.Weight,
				Zone: b.Zone, Session: b.Session, Tenant: b.Tenant})
		}
	}
	f.Backends = addresses
}

// Backend is one server of a fleet, or a name for DNS.
type Backend struct {
	// host:port, resolved at each connect; dns:///host:port for all addresses of A and AAAA records;
	// dns:///_service._proto.host for SRV records; or, with protocol: mcp, the URL of the server, as in
	// https://host/mcp.
	Addr string `yaml:"addr" kind:"backend" required:"" unique:"true" scalar:""`
	// Share of calls relative to the fleet's other backends, so that a canary with 5 gets a twentieth of the calls of
	// each other backend; 0: no new calls. The weights of SRV records are proportional to 100.
	Weight int `yaml:"weight" min:"0" max:"10000" default:"100"`
	// Its zone. Default none.
	Zone string `yaml:"zone" kind:"zone"`
	// The only session that it serves, and which uses no other backend. Default any.
	Session string `yaml:"session" max:"512"`
	// Tenant of the session; required with session if there are tenants, and an error otherwise.
	Tenant string `yaml:"tenant" kind:"tenant"`
}

// Discovery are the calls of a capability's discovery tool.
type Discovery struct {
	// Interval of discoveries.
	Interval time.Duration `yaml:"interval" min:"1s" max:"24h" default:"5m"`
}

// Ejection is outlier detection: a backend gets no calls for a while because of the results of earlier calls.
type Ejection struct {
	// Consecutive calls that were lost, timed out or got UNAVAILABLE; 0: never. A failed connection ejects at once,
	// unless this is 0.
	Failures int `yaml:"failures" min:"0" max:"1000" default:"5"`
	// Duration of the first ejection. Each further one without a success in between is twice as long, plus or minus a
	// fifth, up to 60 times.
	Base time.Duration `yaml:"base" min:"10ms" max:"24h" default:"5s"`
}

// Retry is the retry budget.
type Retry struct {
	// Fraction of the calls of about the last 10 s that may be retried, besides 10 retries a second; 0: no retries.
	Share float64 `yaml:"share" min:"0" max:"1" default:"0.1"`
	// true: the backends are behind a proxy, such as haproxy, that may refuse a call with REFUSED_STREAM or GOAWAY
	// although it ran. Such a call is only repeated if it is declared idempotent.
	Proxied bool `yaml:"proxied" default:"false"`
}

// FleetIdempotency is about idempotency keys of gRPC calls.
type FleetIdempotency struct {
	// true: the gateway handles idempotency-key of gRPC calls, as it does over JSON; false: it is forwarded to
	// backends.
	GRPC bool `yaml:"grpc" default:"false"`
}

// Affinity binds calls of a fleet to one backend.
type Affinity struct {
	// session: calls of one session go to one backend, while it lives; none: they go to any. Default session for the
	// class environment, else none.
	Sessions bool `yaml:"affinity" enum:"none,session"`
	// Time after which a session without calls loses its backend. Default 1h, and 720h with protocol: openparallax.
	SessionTTL time.Duration `yaml:"session_ttl" min:"10s" max:"720h" default:"1h"`
	// shared: backends share their files, so that calls that name one go to any; own: they go to the backend with the
	// file.
	SharedArtifacts bool `yaml:"artifacts" enum:"own,shared" default:"own"`
	// Time for which the backend and the owner of a file are remembered.
	ArtifactTTL time.Duration `yaml:"artifact_ttl" min:"10s" max:"720h" default:"24h"`
}

// Queue has the calls of a fleet that wait for a backend.
type Queue struct {
	// Maximum wait of a call; 0s: no call waits. Its deadline includes the wait. At most 100 calls of the fleet wait in
	// each replica.
	Wait time.Duration `yaml:"wait" default:"10s"`
}

// Deadline bounds the calls of a fleet.
type Deadline struct {
	router.Deadlines `yaml:",inline"`
}

// Check compares the deadlines.
func (d *Deadline) Check(at strictyaml.At) {
	if !at.Has("default") {
		d.Default = min(d.Default, d.Max)
	}
	if d.Default > d.Max {
		at.Fail("default", "%s is more than max, which is %s", d.Default, d.Max)
	}
}

// Health are the health checks of backends.
type Health struct {
	health.Config `yaml:",inline"`
	// Probe of the backends, with protocol: openparallax: status is ClientService/GetStatus, the default; shield is
	// ShieldService/Health.
	Probe string `yaml:"probe" kind:"probe"`
}

// Check compares the timeout with the interval.
func (h *Health) Check(at strictyaml.At) {
	if !at.Has("timeout") {
		h.Timeout = min(h.Timeout, h.Interval)
	}
	if h.Timeout > h.Interval {
		at.Fail("timeout", "%s is more than interval, which is %s", h.Timeout, h.Interval)
	}
}

// BackendTLS is TLS to the backends of a fleet, to a shield, or to a collector.
type BackendTLS struct {
	Enabled bool `yaml:",present"` // the file has the block, even an empty one
	// Authorities of the servers, PEM. Default the system's.
	CAFile string `yaml:"ca_file" kind:"file"`
	// Client certificate, PEM, with key_file.
	CertFile string `yaml:"cert_file" kind:"file"`
	// Private key of the client certificate, PEM.
	KeyFile string `yaml:"key_file" kind:"file"`
	// Name in their certificates. Default the host of the address.
	ServerName string `yaml:"server_name" kind:"server_name"`
	// true accepts any certificate; for tests only, and excludes ca_file.
	Insecure bool `yaml:"insecure" default:"false"`
}

// Check checks that fields belong together.
func (t *BackendTLS) Check(at strictyaml.At) {
	if (t.CertFile == "") != (t.KeyFile == "") {
		at.Fail("", "cert_file and key_file belong together; give both or neither")
	}
	if t.Insecure && t.CAFile != "" {
		at.Fail("insecure", "true accepts any certificate, so ca_file has no effect; give one of the two")
	}
}

// Addrs returns the addresses of the fleet's backends.
func (f *Fleet) Addrs() []string {
	addrs := make([]string, len(f.Backends))
	for i := range f.Backends {
		addrs[i] = f.Backends[i].Addr
	}
	return addrs
}
