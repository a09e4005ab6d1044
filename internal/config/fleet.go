package config

import (
	"time"

	"github.com/capgate/capgate/internal/call"
	"github.com/capgate/capgate/internal/registry"
)

// Fleet is one capability and the backends that serve it.
type Fleet struct {
	Capability string // capability: its id; lower-case letters, digits and hyphens, at most 63; unique
	// services: gRPC services whose calls use this fleet if they name no capability, package.Service; default
	// none
	Services []string
	// methods: gRPC methods of its backends besides those of the dialects and of services,
	// package.Service/Method or package.Service/*; all others are rejected; default none
	Methods  []string
	Backends []Backend    // backends: host:port or {addr, weight, zone} each; [] if all register themselves
	Names    []Name       // backends: those with dns:///… addresses
	Dialect  call.Dialect // dialect: auto (ask the backends, the default), doc, live or legacy
	Deadline Deadline     // deadline: deadlines of calls
	Health   Health       // health: health checks of the backends
	Ejection Ejection     // ejection: outlier detection by the results of calls
	Retry    Retry        // retry: retry budget for calls that provably did not start
	// idempotent: tools that may run twice for one call, so that a call may be retried although a lost backend
	// may have begun it; "*": all tools, and every other call but uploads; default none
	Idempotent []string
	// idempotency.grpc: true handles idempotency-key of gRPC calls in the gateway; default false, and it is
	// forwarded to backends
	Keyed bool
	// class: tool, which answers each call by itself (the default), or environment, which keeps state between
	// the calls of a session
	Class    call.Class
	Affinity Affinity // affinity of sessions and files; each field is a field of the fleet
	Limit    Limit    // max_concurrent, queue: concurrent calls of a backend, and waiting calls
	// slow_start: time in which the share of calls of a new or returning backend grows to its full size; 0s: at
	// once; default 30s
	SlowStart time.Duration
	// policy: allow, ask or block, for tools without a rule or a recommendation of the manifest; default block
	Policy call.Verdict
	// validate_arguments: true checks the arguments of each call against the input_schema of its tool, before
	// it goes to a backend; needs a manifest; default false
	Validate bool
	// enforce_credentials: true rejects a config_json with credentials that the manifest does not declare;
	// needs a manifest; default false, and config_json is not read
	Enforce bool
	// manifest: file of the capability's manifest.yaml, with its tools and recommended policies; default none
	Manifest  string
	Discovery Discovery // discovery: calls of the discovery tool of a manifest with tool_source: dynamic
	// drift_guard: false accepts a tool whose description or schema has changed; true asks for approval of its
	// calls, if they would be allowed, until an operator accepts it; default true
	Unguarded bool
	TLS       BackendTLS // tls: to the backends; default cleartext
	Shield    string     // shield: name of the shield that judges its calls, or none; default the file's shield
	// protocol: protocol of its backends: the name of a Protocol, or selu, the default, which is ""
	Protocol string
	Settings any // the field of its Protocol; nil: selu
	Own      Own // not a field

	// event_source: tools that may be called with GET too, as a browser's EventSource does. They must have no
	// side effects, because browsers may repeat GET requests; "*": all; default none.
	EventSource []string
}

// Own are the fields that the file sets for a fleet, so that its manifest does not.
type Own struct{ Class, Affinity, MaxConcurrent, Deadline, Discovery bool }

// Backend is one server of a fleet.
type Backend struct {
	Addr string // addr: host:port, unique within the fleet; a name is resolved at each connect
	// weight: share of calls relative to the fleet's other backends, 0 to 10000; 0: no new calls; default 100,
	// so that a canary with 5 gets a twentieth of the calls of each other backend
	Weight int
	Zone   string // zone: its zone; default none
	// session: the only session that it serves, and which uses no other backend, at most 512 bytes; default any
	Session string
	// tenant: tenant of the session; required with session if there are tenants, and an error otherwise
	Tenant string
}

// Name is an entry of backends whose addresses come from DNS.
type Name struct {
	// addr: dns:///host:port for A and AAAA records, dns:///_service._proto.host for SRV records; unique within
	// the fleet
	registry.Name
	Weight  int // weight: weight of each address, as a Backend's; the weights of SRV records are proportional to 100
	Zone    string
	Session string
	Tenant  string
}

// Discovery are the calls of a capability's discovery tool. One replica makes them, also when the fleet becomes
// healthy.
type Discovery struct {
	Interval time.Duration // interval: interval of discoveries, 1s to 24h; default 5m
	// timeout: timeout of one call of the discovery tool, which is made twice at most, 10ms to 2m; default 10s
	Timeout time.Duration
}

// Ejection is outlier detection: a backend gets no calls for a while because of the results of earlier calls. A
// tool's own error never counts, nor does a canceled call. At most half of a fleet is ejected at once.
type Ejection struct {
	// failures: consecutive calls that were lost, timed out or got UNAVAILABLE, 0 to 1000; 0: never; default 5
	Failures int
	// connect_failures: consecutive failed connections, 0 to 1000; 0: never; default 1
	ConnectFailures int
	// timeout_least: a timeout counts if the backend had the call for so long, more than 0; default 1s
	TimeoutLeast time.Duration
	// base: duration of the first ejection; each further one without a success in between is twice as long,
	// plus or minus a fifth; default 5s
	Base time.Duration
	Max  time.Duration // max: maximum duration of an ejection; default 5m, or base if that is more
}

// Retry is the retry budget. A call is retried once, and only if it provably did not start, or if its tool is
// idempotent and no response has begun.
type Retry struct {
	Share float64 // share: fraction of the calls of about the last 10 s that may be retried, 0 to 1; default 0.1
	Floor int     // floor: retries per second that are permitted besides, 0 to 10000; default 10
}

// Affinity binds calls of a fleet to one backend.
type Affinity struct {
	// affinity: session: calls of one session go to one backend, while it lives; none: they go to any; default
	// session for the class environment, else none
	Sessions bool
	// session_ttl: how long a session keeps its backend without a call, 10s to 720h; default 1h
	SessionTTL time.Duration
	// artifacts: shared: backends share their files, so that calls that name one go to any; own: they go to the
	// backend with the file; default own
	SharedArtifacts bool
	// artifact_ttl: how long the backend and the owner of a file are remembered, 10s to 720h; default 24h
	ArtifactTTL time.Duration
}

// Limit bounds the concurrent calls of each backend of a fleet. MaxConcurrent is a field of the fleet.
type Limit struct {
	MaxConcurrent int // max_concurrent: of all replicas together, 0 to 100000; 0: no limit; default 0
	// length: calls of the fleet that may wait in each replica, 0 to 10000; 0: none; default 100
	Queue int
	Wait  time.Duration // wait: how long a call may wait, more than 0; its deadline includes the wait; default 10s
}

// Deadline bounds the calls of a fleet.
type Deadline struct {
	// default: deadline of a unary call whose caller sets none; default 120s, or max if that is less
	Default time.Duration
	Max     time.Duration // max: maximum deadline of a unary call; default 15m
	Stream  time.Duration // stream: maximum duration of a streaming call; default 1h
}

// Health are the health checks of backends.
type Health struct {
	// interval: time from the end of one probe to the next; a quarter of that after the first failures of a
	// backend that was up; default 5s
	Interval time.Duration
	// timeout: timeout of one probe, including the connection, at most interval; default 1s, or interval if
	// that is less
	Timeout time.Duration
	Jitter  float64 // jitter: fraction of interval by which each wait varies, above 0 and up to 1; default 0.1
	Probe   string  // probe: the kind of probe, as the fleet's Protocol names it; default its first
	Rise    int     // rise: consecutive good probes that bring a backend back, 1 to 100; default 2
	Fall    int     // fall: consecutive bad probes that take it out, 1 to 100; default 2
}

// BackendTLS is TLS to the backends of a fleet, or to a shield.
type BackendTLS struct {
	Enabled    bool   // the file has a tls block, even an empty one: tls: {}
	CAFile     string // ca_file: authorities of the backends, PEM; default the system's
	CertFile   string // cert_file: client certificate, PEM, with key_file; default none
	KeyFile    string // key_file: its private key, PEM
	ServerName string // server_name: name in their certificates; default the host of the backend's address
	Insecure   bool   // insecure: true accepts any certificate; for tests only, and excludes ca_file
}
