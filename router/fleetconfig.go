package router

import (
	"cmp"
	"strings"
	"sync"
	"time"

	"github.com/capgate/capgate/internal/call"
	"github.com/capgate/capgate/internal/lib/strictyaml"
)

// FleetConfig describes one fleet. Its fields with tags are a part of the configuration file. A zero number or duration
// takes the default of its tag.
type FleetConfig struct {
	// ID of the capability in calls: lower-case letters, digits and hyphens, at most 63.
	Capability string `yaml:"capability" kind:"capability" required:"" unique:"true"`
	// Addresses of the backends: host:port, dns:///host:port, with protocol: mcp a URL, or a mapping each; [] if all
	// register themselves.
	Backends []BackendConfig `yaml:"backends" required:"source"`
	// gRPC services whose calls use this fleet if they name no capability: package.Service. A service belongs to one
	// fleet.
	Services []string `yaml:"services" kind:"service" unique:"service"`
	// gRPC methods of the backends besides those of the dialects and of services: package.Service/Method or
	// package.Service/*. All others are rejected.
	Methods []string `yaml:"methods" kind:"method"`
	// Dialect of the backends; auto: ask them.
	Dialect call.Dialect `yaml:"dialect" default:"auto"`
	// Affinity binds sessions and files to backends.
	Affinity Affinity `yaml:",inline"`
	// Deadlines of calls. off is for fleets with services that are not capabilities: only a caller's own deadline ends
	// calls of these services.
	Deadlines Deadlines `yaml:"deadline"`
	// Outlier detection by the results of calls. A tool's own error never counts, nor does a canceled call. At most
	// half of a fleet is ejected at once, and all but one of the backends that refuse connections.
	Ejection Ejection `yaml:"ejection"`
	// Retry budget. A call is retried only if it provably did not start, or, once, if its tool is idempotent and no
	// response has begun. A call without a connection needs no budget.
	Retries Retries `yaml:"retry"`
	// Tools that may run twice for one call, so that a call may be retried although a lost backend may have begun it.
	// "*": all tools, and every other call but uploads.
	Idempotent []string `yaml:"idempotent" kind:"tool" unique:"true"`
	// Calls with an idempotency key.
	Idempotency Idempotency `yaml:"idempotency"`
	// Tools that may be called with GET too, as a browser's EventSource does. They must have no side effects, because
	// browsers may repeat GET requests; "*": all.
	EventSource []string `yaml:"event_source" kind:"tool" unique:"true"`
	// Limit bounds the concurrent calls.
	Limit Limit `yaml:",inline"`
	// Time in which the share of calls of a new or returning backend grows to its full size; 0s: at once.
	SlowStart time.Duration `yaml:"slow_start" default:"30s"`
	// How long a call that needs a person's approval waits for the answer, unless its caller says so: with Prefer: wait
	// or x-approval-wait. It waits for three quarters of the time until its deadline at most; 0s: not at all.
	ApprovalWait time.Duration `yaml:"approval_wait" min:"0" max:"10m" default:"0s"`
	// Assertion of the caller, which each request to the backends has in the header or metadata x-capgate-assertion:
	// a JWT that is valid for a minute, signed with ES256. {}: with the defaults. Default none.
	Assertion *Assertion `yaml:"assertion"`

	Protocol     Protocol      `yaml:",extra"` // of the backends; default Selu's
	Secure       bool          `yaml:"-"`      // the backends use TLS
	WaitForReady time.Duration `yaml:"-"`      // longest wait of a call while no backend is ready; 0: none
}

// Check completes a fleet of the file, where 0 means none.
func (c *FleetConfig) Check(strictyaml.At) { c.SlowStart = orNone(c.SlowStart) }

// BackendConfig is one server of a fleet, or a name for DNS.
type BackendConfig struct {
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

	Host    string       `yaml:"-"` // the name in its certificate, where the fleet has none; default the host of Addr
	Dialect call.Dialect `yaml:"-"` // Auto: the fleet's
	// Limit is the maximum of concurrent calls of all replicas; default the fleet's Limit.PerBackend; negative: none.
	Limit int `yaml:"-"`
}

// Check completes a backend of the file, where 0 means none.
func (b *BackendConfig) Check(strictyaml.At) { b.Weight = orNone(b.Weight) }

// orNone converts a 0 of the file, where it means "none", to the value for none of a field whose 0 means the default.
func orNone[T int | time.Duration](v T) T { return cmp.Or(v, -1) }

// defaults returns the defaults of a fleet.
var defaults = sync.OnceValue(strictyaml.Defaults[FleetConfig])

// defaultWeight returns the weight of a backend.
var defaultWeight = sync.OnceValue(func() int { return strictyaml.Defaults[BackendConfig]().Weight })

// Assertion is about the tokens that describe the caller to backends. It is immutable.
type Assertion struct {
	// The value of aud. Backends must accept no other one. Default the URL of a backend that has one, and otherwise
	// the capability.
	Audience string `yaml:"audience" max:"512"`
}

// Of returns the audience of a backend; "": assertions are off. A nil Assertion is off.
func (a *Assertion) Of(capability, addr string) string {
	switch {
	case a == nil:
		return ""
	case a.Audience == "" && strings.Contains(addr, "://"):
		return addr
	}
	return cmp.Or(a.Audience, capability)
}

// Equal reports whether backends receive the same assertions.
func (a *Assertion) Equal(b *Assertion) bool { return a == b || a != nil && b != nil && *a == *b }

// Idempotency is about idempotency keys of gRPC calls.
type Idempotency struct {
	// true: the gateway handles idempotency-key of gRPC calls, as it does over JSON; false: it is forwarded to
	// backends.
	GRPC bool `yaml:"grpc" default:"false"`
}

// Addrs returns configurations of backends that have only host:port.
func Addrs(addrs ...string) []BackendConfig {
	backends := make([]BackendConfig, len(addrs))
	for i, addr := range addrs {
		backends[i].Addr = addr
	}
	return backends
}

// weight returns a configured weight with its default filled in.
func weight(configured int) int {
	return max(cmp.Or(configured, defaultWeight()), 0)
}
