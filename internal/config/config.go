package config

import (
	"log/slog"
	"net/netip"
	"time"

	"github.com/capgate/capgate/internal/call"
	"github.com/capgate/capgate/internal/registry"
	"github.com/capgate/capgate/internal/tenant"
)

// Config is the whole file. Parse fills in the defaults.
type Config struct {
	Listen   string   // listen: public address, every protocol, host:port; default ":8080"
	Admin    string   // admin: operators' address, host:port; default "127.0.0.1:8081"
	Redis    Redis    // redis: what replicas share
	Replicas Replicas // replicas: how replicas that have a Redis in common share the probing of backends
	// domains: weather.<domain> as :authority names the capability weather; lower-case; default none
	Domains []string
	// hosts: names that the public port answers to where callers need no credential, besides localhost,
	// addresses and domains; *.example.com: all below it, "*": any; default none
	Hosts []string
	// admin_hosts: names that the operators' port answers to, besides localhost and the address that is
	// connected to, as hosts; default none
	AdminHosts []string
	// zone: where the gateway is; calls stay with backends of the same zone while these can take them; default
	// no preference
	Zone      string
	TLS       ServerTLS // tls: of the public port; default cleartext
	Proxies   Proxies   // trusted_proxies, proxy_protocol: what stands before the public port
	Drain     Drain     // drain: how the gateway stops
	Log       Log       // log: what it writes to standard error
	Metrics   Metrics   // metrics: what is counted
	REST      REST      // rest: the JSON API
	CORS      CORS      // cors: which pages of other sites may call from browsers; default none
	Artifacts Artifacts // artifacts: files over HTTP
	// client_limits: what clients may take of this replica before anything else is known of them than their
	// network
	ClientLimits ClientLimits
	Overload     Overload // overload: what this process can take, before it turns calls away
	Traces       Traces   // traces: where spans of calls go; default nowhere
	Fleets       []Fleet  // fleets: at least one, unless registration.capabilities allows others
	// manifests: files, and directories of capabilities, with the manifests of fleets that name none, by their
	// ids; default none
	Manifests    []string
	DNS          DNS          // dns: how the names of dns:///… backends are looked up
	Registration Registration // registration: what backends that register themselves may do
	Policies     Policies     // policies: rules on who may call what
	Approvals    Approvals    // approvals: calls that people are asked about
	Idempotency  Idempotency  // idempotency: calls that are carried out once, however often they are made
	Webhook      Webhook      // approvals.webhook: a URL that is told what happens to approvals; default none
	// shields: OpenParallax Shields, which judge calls that policy allows or asks about; default none
	Shields []Shield
	Shield  string // shield: name of the one for all fleets that name none; default none
	// callers need credentials: the file has tenants, if none at all (tenants: []), or identity.store
	Multi bool
	// tenants: who may call, each with its API keys; default one tenant, to whom every call belongs
	Tenants  []Tenant
	Identity Identity // identity: tenants and API keys that replicas share in Redis
	Issuers  []Issuer // issuers: whose tokens tell who calls, beside API keys; default none
	// pepper_file: what the secrets of keys are hashed under, HMAC-SHA-256, at least 16 bytes without the end
	// of its line; default none, and hashes are SHA-256
	PepperFile string

	// certificates: tenants' client certificates, which need tls.client_ca_file; default none, and a
	// certificate says nothing of who calls
	Certificates []Certificate
	Audit        Audit // audit: the record of who did what

	Limits tenant.Limits // limits: how much each tenant may do that has no limits of its own; default anything

	Named map[string]Named // not a field: the files and directories that it names, and where it does first
}

// Tenant is who may call.
type Tenant struct {
	ID string // id: letters, digits, hyphens, dots and underscores, at most 63; unique
	// capabilities: patterns (path.Match) of those that it sees and may call, at most 256; required; "*": all
	Capabilities tenant.Grants
	Keys         []Key // keys: its API keys
	// limits: how much its callers may do, on all replicas together; {}: anything; default the file's limits
	Limits *tenant.Limits
}

// Issuer is an OpenID Connect issuer of tokens, JWTs. The way to a claim is its name, or names
// with dots between.
type Issuer struct {
	// name: letters, digits, hyphens, dots and underscores, at most 63; unique; the log's key of its callers
	Name string
	// issuer: its URL, which is the iss of its tokens, exactly; unique; https, unless it is loopback or
	// insecure
	URL       string
	Audiences []string // audiences: aud of a token must have one of them; needed
	JWKSURL   string   // jwks_url: of its keys; default what discovery says
	// algorithms: of signatures, of RS256, RS384, RS512, PS256, PS384, PS512, ES256, ES384, ES512 and EdDSA;
	// default RS256, PS256, ES256 and EdDSA
	Algorithms  []string
	Leeway      time.Duration // leeway: by which its clock and this one may differ, 0s to 5m; default 60s
	MaxLifetime time.Duration // max_lifetime: of a token, 1m to 8760h; default any
	// refresh: from one look at its keys to the next, give or take a tenth, 1s to 24h; default 5m
	Refresh  time.Duration
	MaxStale time.Duration // max_stale: how long known keys go on while it is away, 1m to 720h; default 24h
	CAFile   string        // ca_file: authorities that may vouch for it, PEM; default the system's
	Insecure bool          // insecure: true lets it be reached by cleartext HTTP; for tests only
	// id_tokens: true takes tokens that say that they are ID tokens of a login; default false
	IDTokens bool
	Tenant   string        // tenant: of all its tokens; default the claim says it
	Scopes   tenant.Scopes // scopes: of all its tokens; default invoke and read, or the claim says them
	// asserts: what callers may say by x-user-id and x-agent-id, in place of the claims, of user and agent;
	// default nothing
	Asserts tenant.Asserts
	Claims  Claims // claims: where its tokens say who calls
	// scope_names: what the words of claims.scopes mean; others mean nothing; default the scopes' own names
	ScopeNames map[string]tenant.Scopes
	Required   map[string]string // required_claims: what claims must be, or lists must have; default nothing
}

// Claims are names of claims.
type Claims struct {
	Tenant string // tenant: default tenant_id
	User   string // user: default sub; it must be there
	Agent  string // agent: default none
	Scopes string // scopes: a list, or words with blanks between; default none
}

// ServerTLS is TLS of the public port. It is off when CertFile is empty.
type ServerTLS struct {
	CertFile     string // cert_file: certificate chain, PEM; with key_file
	KeyFile      string // key_file: its private key, PEM
	ClientCAFile string // client_ca_file: authorities that clients' certificates are from, PEM; default none asked for
	// client_auth: optional lets clients connect without a certificate, while one that is shown must be good;
	// with require, the default, they must show one
	Optional bool
}

// Redis is where replicas share what they know. The file has the URL alone, or a mapping
// with a url.
type Redis struct {
	// url: as in redisurl.Parse; default "embedded", one inside the process that is shared with nobody
	URL string
	// password_file: holds the password, without the end of its line; goes before the url's; default none
	PasswordFile string
	CAFile       string // ca_file: authorities that may vouch for a rediss server, PEM; default the system's
	CertFile     string // cert_file: certificate to show to it, PEM, with key_file; default none
	KeyFile      string // key_file: its private key, PEM
	// server_name: name that its certificate must be for; default the host that is connected to
	ServerName string
	// timeout: how long a command may take before Redis counts as away, 1ms to 10s; default 250ms
	Timeout time.Duration
	// wait_replicas: how many replicas must have the use of an approval, or the claim of an idempotency key,
	// before the call runs, 1 to 10; default 0, none
	WaitReplicas int
	// store_key_file: keys that sign what allows something in Redis, one a line of 32 bytes in base64 or hex:
	// the first signs, all verify; default none, and nothing is signed
	StoreKeyFile string
	// store_key_accept_unsigned: records that are not signed are taken yet; for the days in which a
	// store_key_file is new; default false
	Unsigned    bool
	WaitTimeout time.Duration // wait_timeout: how long that may take before the call is refused, 10ms to 10s; default 1s
}

// Replicas is how replicas share the probing. It should be the same for all, but for the id.
type Replicas struct {
	// id: this replica's name, unique, without spaces, at most 128 bytes; default auto: the host's name and
	// something random
	ID string
	// heartbeat: a replica that is not heard of for a quarter longer is dead, and others probe in its place,
	// 200ms to 1m; default 2s
	Heartbeat time.Duration
	// reconcile: how often each replica makes sure that it knows what Redis says, should it have missed it, 1s
	// to 10m; default 10s
	Reconcile time.Duration
	// stale: what is known of a backend counts no longer, and calls may go there, when nobody is known to have
	// looked for so long, 5s to 1h; default 30s
	Stale time.Duration
}

// Policies are rules on who may call what, which replicas share in Redis. Without rules
// the manifests and fleets alone say what becomes of a call.
type Policies struct {
	Enabled bool // the file has a policies block, if an empty one: policies: {}
	Shadow  bool // shadow: count what candidate rules would change; default false
	Cache   int  // cache: decisions kept in memory, 16 to 10000000; default 100000
	// ttl: how long a decision is kept, give or take a fifth, should a change have been missed, 1s to 1h;
	// default 1m
	TTL time.Duration
	// max_stale: how long decisions are made from memory while Redis is away; then calls are refused, 10s to
	// 24h; default 10m
	MaxStale time.Duration
}

// Shield is an OpenParallax Shield. It has either an address or a url.
type Shield struct {
	Name    string        // name: letters, digits, hyphens, dots and underscores, at most 63; unique, and not none
	Address string        // address: host:port of its gRPC server
	URL     string        // url: of its HTTP form, the path included, as in http://shield:9090/evaluate
	TLS     BackendTLS    // tls: to it; default cleartext for an address, the system's authorities for https
	Timeout time.Duration // timeout: of one question, 1ms to 30s; default 500ms
	// on_failure: allow, ask or block, what becomes of a call while it does not answer; an answer that cannot
	// be understood is never allow; default block
	OnFailure call.Verdict
	Cache     int // cache: verdicts kept until they expire, 0 to 1000000; 0: none; default 10000
}

// Approvals are calls that people are asked about. It should be the same for all replicas.
type Approvals struct {
	TTL        time.Duration // ttl: how long there is to answer, and then to make the call, 1s to 24h; default 10m
	SessionTTL time.Duration // session_ttl: how long an answer for a session holds, 1s to 720h; default 1h
	// key_file: keys that encrypt arguments in Redis, AES-256, in base64 or hex, one a line: the first
	// encrypts, all decrypt; default none, so that only a preview is kept whose secrets are masked
	KeyFile string
	// max_pending: approvals of a tenant that wait, for an answer or their call, 1 to 100000; default 10000
	MaxPending int
}

// Idempotency is what is kept of calls with idempotency keys. It should be the same for all replicas.
type Idempotency struct {
	TTL time.Duration // ttl: how long an answer is kept for repeats, and a key is not free, 1s to 720h; default 24h
	// max_answer: the longest answer that is kept, in bytes, 1 to 4194304; who repeats a call with a longer one
	// is told so; default 65536
	MaxAnswer int
	MaxKeys   int // max_keys: of a tenant that are kept at once, 1 to 1000000; default 10000
	// key_file: keys that encrypt answers in Redis, as approvals.key_file; default that one's; without either,
	// calls with idempotency keys are refused, unless Redis is embedded
	KeyFile string
}

// Webhook is a URL that is told what happens to approvals. It is in the approvals block.
type Webhook struct {
	URL string // url: where a request goes for each event, http or https
	// secret_file: secrets that sign requests, one a line: whsec_ and base64, or 24 bytes or more as they are;
	// all sign
	SecretFile string
	Events     []string      // events: asked, approved, denied, used, released, expired; default [asked]
	Timeout    time.Duration // timeout: of one request, 100ms to 1m; default 10s
	Attempts   int           // attempts: requests for one event, at most, 1 to 100; default 10
	// proxy: environment takes the proxy that HTTPS_PROXY and HTTP_PROXY name, none goes straight there;
	// default none
	Proxy bool
}

// DNS is how the names of dns:///… backends are looked up.
type DNS struct {
	Server  string        // server: ip:port of the DNS server to ask; default the system's
	Resolve time.Duration // resolve: from one look at a name to the next, give or take a tenth, 10ms to 1h; default 5s
}

// Registration is what backends that register themselves may do.
type Registration struct {
	// allow: addresses that may be registered although they are loopback, link-local, cloud metadata, multicast
	// or reserved; IP addresses or prefixes; default none
	Allow []netip.Prefix
	// capabilities: patterns, where * stands for anything, of capabilities without a fleet that may be
	// registered, and then get one with every default; default none
	Capabilities []string
	Policy       call.Verdict // policy: of these capabilities, as a fleet's; default block
	// manifests: true lets a backend bring the manifest of its capability, which says what the tools are and
	// recommends policies, for fleets that name none; default false, and who brings one is refused
	Manifests        bool
	MinTTL           time.Duration // min_ttl: of a lease, 1s to 1h; default 5s
	Max              int           // max: registrations in all, 0 to 100000; default 10000
	MaxPerCapability int           // max_per_capability: registrations of one capability, 0 to 100000; default 1000
}

// Drain is how the gateway stops.
type Drain struct {
	// delay: between readiness off and the first refused connection, for load balancers to notice; default 5s
	Delay   time.Duration
	Timeout time.Duration // timeout: for calls to finish after that; default 20s, so that both fit into Kubernetes' 30s
}

// Log is what the gateway logs.
type Log struct {
	Level  slog.Level // level: debug, info, warn or error; default info
	Format string     // format: text or json; default json
}

// Metrics is what is counted.
type Metrics struct {
	// tenants: how many tenants, the file's that have limits and the first that call, have series of their own;
	// all others share tenant="other", 0 to 10000; default 100
	Tenants int
}

// Overload is what this process can take. Beyond it calls are turned away, of the tenants
// first that have more than their fair share.
type Overload struct {
	Off bool // overload: off turns none away
	// max_in_flight: calls at once, 1 to 100000000; default one for each 16 KiB of memory that the process may
	// have
	MaxInFlight int
	MaxMemory   int64 // max_memory: bytes that live; default three quarters of what the process may have
	// max_delay: how long a caller's bytes may wait for their turn, all through a tenth of a second, 100µs to
	// 10s; default 10ms, and 100ms without tenants, who could harm each other
	MaxDelay time.Duration
}

// Traces is which calls are traced, and where their spans go. No call is when Endpoint is empty.
type Traces struct {
	// endpoint: an OpenTelemetry collector, host:port for OTLP over gRPC, or a URL for OTLP over HTTP, whose
	// path is /v1/traces where it has none
	Endpoint string
	TLS      BackendTLS // tls: to it; default cleartext for host:port, the system's authorities for https
	// headers_file: what is sent with each request, such as a credential, name: value a line; default nothing
	HeadersFile string
	Sample      float64 // sample: share of the calls that begin a trace here which are traced, 0 to 1; default 0.01
	// follow: true lets callers decide who send a traceparent; false: sample alone decides; default true
	Follow  bool
	Service string // service: service.name of the spans; default capgate
	// queue: spans that wait for the collector, 100 to 1000000; more are dropped and counted; default 4096
	Queue   int
	Timeout time.Duration // timeout: of one request, 100ms to 1m; default 10s
}

// Fleet is one capability and the backends that serve it.
type Fleet struct {
	Capability string // capability: its id; lower-case letters, digits and hyphens, at most 63; unique
	// services: gRPC services whose calls come here when they name no capability, package.Service; default none
	Services []string
	// methods: gRPC methods that its backends have beside those of the dialects and of services,
	// package.Service/Method or package.Service/*; all others are refused; default none
	Methods  []string
	Backends []Backend    // backends: host:port or {addr, weight, zone} each; [] where all register themselves
	Names    []Name       // backends: those that are dns:///… instead
	Dialect  call.Dialect // dialect: auto (ask the backends, the default), doc, live or legacy
	Deadline Deadline     // deadline: how long calls may take
	Health   Health       // health: how the backends are probed
	Ejection Ejection     // ejection: when the ends of calls take a backend out, long before a probe
	Retry    Retry        // retry: second tries of calls that provably did not start
	// idempotent: tools that may be carried out twice for one call, so that a call may be tried again although
	// a lost backend may have begun it; "*": all tools, and every other call but uploads; default none
	Idempotent []string
	// idempotency.grpc: true takes idempotency-key of calls by gRPC for the gateway; default false, and it is
	// the backends'
	Keyed bool
	// class: tool, which answers each call by itself (the default), or environment, which keeps state between
	// the calls of a session
	Class    call.Class
	Affinity Affinity // what has to come to the same backend; each field is the fleet's own
	Limit    Limit    // max_concurrent, queue: how many calls a backend has at once, and how many wait
	// slow_start: in which a backend that comes back, or is new, gets its whole share of calls; 0s: at once;
	// default 30s
	SlowStart time.Duration
	// policy: allow, ask or block, for tools of which neither a rule nor the manifest says anything; default
	// block
	Policy call.Verdict
	// validate_arguments: true checks the arguments of each call against the input_schema of its tool, before
	// it goes to a backend; needs a manifest; default false
	Validate bool
	// enforce_credentials: true lets the config_json of a call name only credentials that the manifest
	// declares; needs a manifest; default false, and config_json is not looked at
	Enforce bool
	// manifest: file of the capability's manifest.yaml, which says what its tools are and recommends policies;
	// default none
	Manifest  string
	Discovery Discovery // discovery: how the tools of a manifest with tool_source: dynamic are asked for
	// drift_guard: false takes a tool whose description or schema has changed as it was; else it is asked
	// about, where it would be allowed, until somebody accepts it; default true
	Unguarded bool
	TLS       BackendTLS // tls: to the backends; default cleartext
	Shield    string     // shield: name of the shield that judges its calls, or none; default the file's shield
	Protocol  string     // protocol: what its backends speak: the name of a Protocol, or selu, the default, which is ""
	Settings  any        // the field of its Protocol; nil: selu
	Own       Own        // not a field

	// event_source: tools that may be called by GET too, as a browser's EventSource does. They must change
	// nothing, for browsers send GET again, and of their own accord; "*": all; default none.
	EventSource []string
}

// Own is what the file says of a fleet itself, so that its manifest does not.
type Own struct{ Class, Affinity, MaxConcurrent, Deadline, Discovery bool }

// Backend is one server of a fleet.
type Backend struct {
	Addr string // addr: host:port, unique within the fleet; a name is resolved at each connect
	// weight: share of calls, against the fleet's other backends', 0 to 10000; 0: no new calls; default 100, so
	// that a canary with 5 gets a twentieth of what each other one gets
	Weight int
	Zone   string // zone: where it is; default nowhere
	// session: it serves this session, which goes nowhere else, and no other, at most 512 bytes; default any
	Session string
	Tenant  string // tenant: whose session that is; needed with session where there are tenants, and nowhere else
}

// Name is an entry of backends whose addresses DNS knows.
type Name struct {
	// addr: dns:///host:port for A and AAAA records, dns:///_service._proto.host for SRV records; unique within
	// the fleet
	registry.Name
	Weight  int // weight: of each address, as a Backend's; SRV records' own are taken in proportion to 100
	Zone    string
	Session string
	Tenant  string
}

// Discovery is how the tools of a capability are asked for. One replica does, and also when
// the fleet becomes healthy.
type Discovery struct {
	Interval time.Duration // interval: from one discovery to the next, 1s to 24h; default 5m
	// timeout: of one call of the discovery tool, of which there are two at most, 10ms to 2m; default 10s
	Timeout time.Duration
}

// Ejection is when calls stop going to a backend for a while because of how calls to
// it ended. What a tool answers never counts, nor does a caller that leaves. Never more
// than half of a fleet is out at once.
type Ejection struct {
	// failures: calls in a row that were lost, timed out or got UNAVAILABLE, 0 to 1000; 0: never; default 5
	Failures int
	// connect_failures: connections in a row that could not be made, 0 to 1000; 0: never; default 1
	ConnectFailures int
	// timeout_least: a call that timed out counts if the backend had it for so long, more than 0; default 1s
	TimeoutLeast time.Duration
	// base: of the first ejection; each further one without a success between is twice as long, give or take a
	// fifth; default 5s
	Base time.Duration
	Max  time.Duration // max: of any ejection; default 5m, or base if that is more
}

// Retry bounds second tries. A call is tried twice at most, and only if it provably
// did not start the first time, or if its tool is idempotent and no answer has begun.
type Retry struct {
	Share float64 // share: of the calls of about the last 10 s that may be tried again, 0 to 1; default 0.1
	Floor int     // floor: second tries per second that are allowed besides, 0 to 10000; default 10
}

// Affinity is which calls of a fleet have to come to the same backend.
type Affinity struct {
	// affinity: session: calls of one session go to one backend, while it lives; none: they go to any; default
	// session for the class environment, else none
	Sessions bool
	// session_ttl: how long a session keeps its backend without a call, 10s to 720h; default 1h
	SessionTTL time.Duration
	// artifacts: shared: backends find each other's files, so that calls that name one go to any; own: they go
	// to the backend that has it; default own
	SharedArtifacts bool
	// artifact_ttl: how long it is remembered which backend has a file, and whose it is, 10s to 720h; default
	// 24h
	ArtifactTTL time.Duration
}

// Limit bounds the calls that each backend of a fleet has at once. MaxConcurrent is a field of the
// fleet's own.
type Limit struct {
	MaxConcurrent int // max_concurrent: of all replicas together, 0 to 100000; 0: no limit; default 0
	// length: calls of the fleet that may wait in each replica, 0 to 10000; 0: none; default 100
	Queue int
	Wait  time.Duration // wait: how long one may, more than 0; its deadline counts meanwhile; default 10s
}

// Deadline bounds the calls of a fleet.
type Deadline struct {
	Default time.Duration // default: of a unary call whose caller names none; default 120s, or max if that is less
	Max     time.Duration // max: of any unary call; default 15m
	Stream  time.Duration // stream: of any call that streams; default 1h
}

// Health is how backends are probed.
type Health struct {
	// interval: from the end of one probe to the next, and a quarter of that when one that was up has failed
	// and not yet for the last time; default 5s
	Interval time.Duration
	// timeout: of one probe, connecting included, at most interval; default 1s, or interval if that is less
	Timeout time.Duration
	Jitter  float64 // jitter: share of interval by which each wait varies, more than 0 and at most 1; default 0.1
	Probe   string  // probe: the kind of probe, in the words of the fleet's Protocol; default its first
	Rise    int     // rise: good probes in a row that bring a backend back, 1 to 100; default 2
	Fall    int     // fall: bad probes in a row that take it out, 1 to 100; default 2
}

// BackendTLS is TLS to the backends of a fleet, or to a shield.
type BackendTLS struct {
	Enabled    bool   // the file has a tls block, if an empty one: tls: {}
	CAFile     string // ca_file: authorities that may vouch for backends, PEM; default the system's
	CertFile   string // cert_file: certificate to show to backends, PEM, with key_file; default none
	KeyFile    string // key_file: its private key, PEM
	ServerName string // server_name: name that certificates must be for; default the host of the backend's address
	Insecure   bool   // insecure: true takes any certificate; for tests only, and excludes ca_file
}
