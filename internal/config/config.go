package config

import (
	"log/slog"
	"net/netip"
	"time"

	"github.com/capgate/capgate/internal/call"
	"github.com/capgate/capgate/internal/tenant"
)

// Config is a parsed configuration file. Parse fills in the defaults.
type Config struct {
	Listen   string   // listen: public address for every protocol, host:port; default ":8080"
	Admin    string   // admin: address of the admin API, host:port; default "127.0.0.1:8081"
	Redis    Redis    // redis: the store that replicas share
	Replicas Replicas // replicas: how replicas with a common Redis share the probing of backends
	// domains: weather.<domain> as :authority names the capability weather; lower-case; default none
	Domains []string
	// hosts: names at which the public port answers callers without credentials, besides localhost, addresses
	// and domains; *.example.com: all below it, "*": any; default none
	Hosts []string
	// admin_hosts: names at which the admin API answers, besides localhost and the address of the connection,
	// as hosts; default none
	AdminHosts []string
	// zone: the gateway's zone; calls prefer backends of the same zone; default no preference
	Zone      string
	TLS       ServerTLS // tls: of the public port; default cleartext
	Proxies   Proxies   // trusted_proxies, proxy_protocol: proxies in front of the public port
	Drain     Drain     // drain: the shutdown of the gateway
	Log       Log       // log: the log on standard error
	Metrics   Metrics   // metrics: labels of metrics
	REST      REST      // rest: the JSON API
	CORS      CORS      // cors: origins whose pages may call from browsers; default none
	Artifacts Artifacts // artifacts: files over HTTP
	// client_limits: resources of this replica that clients may use by their network
	ClientLimits ClientLimits
	Overload     Overload // overload: limits of this process, beyond which it rejects calls
	Traces       Traces   // traces: collector of spans; default none
	Fleets       []Fleet  // fleets: at least one, unless registration.capabilities permits others
	// manifests: files, and directories of capabilities, with the manifests of fleets that name none, by their
	// ids; default none
	Manifests    []string
	DNS          DNS          // dns: resolution of dns:///… backends
	Registration Registration // registration: permissions of backends that register themselves
	Policies     Policies     // policies: authorization rules
	Approvals    Approvals    // approvals: calls that need a person's approval
	Idempotency  Idempotency  // idempotency: calls with idempotency keys
	Webhook      Webhook      // approvals.webhook: a URL that gets events of approvals; default none
	// shields: OpenParallax Shields, which judge calls that policy allows or asks about; default none
	Shields []Shield
	Shield  string // shield: name of the shield of all fleets that name none; default none
	// Multi is true if callers need credentials: the file has tenants, even none (tenants: []), or
	// identity.store.
	Multi bool
	// tenants: tenants with their API keys; default one tenant, to which every call belongs
	Tenants  []Tenant
	Identity Identity // identity: tenants and API keys that replicas share in Redis
	Issuers  []Issuer // issuers: issuers of tokens that callers may send in place of API keys; default none
	// pepper_file: key of the HMAC-SHA-256 of secrets, at least 16 bytes without the final newline; default
	// none, and hashes are SHA-256
	PepperFile string

	// certificates: client certificates of tenants, which need tls.client_ca_file; default none, and
	// certificates do not authenticate callers
	Certificates []Certificate
	Audit        Audit // audit: the audit log

	Limits tenant.Limits // limits: limits of each tenant without limits of its own; default none

	// Named is not a field of the file. It has the files and directories that the file names, and the first
	// place of each.
	Named map[string]Named
}

// Tenant is a tenant of the file.
type Tenant struct {
	ID string // id: letters, digits, hyphens, dots and underscores, at most 63; unique
	// capabilities: patterns (path.Match) of the capabilities that it may see and call, at most 256; required;
	// "*": all
	Capabilities tenant.Grants
	Keys         []Key // keys: its API keys
	// limits: limits of its callers, on all replicas together; {}: none; default the file's limits
	Limits *tenant.Limits
}

// Issuer is an OpenID Connect issuer of tokens, JWTs. The path of a claim is its name, or names with dots
// between.
type Issuer struct {
	// name: letters, digits, hyphens, dots and underscores, at most 63; unique; the log's key of its callers
	Name string
	// issuer: its URL, which equals the iss of its tokens; unique; https, unless it is loopback or insecure
	URL       string
	Audiences []string // audiences: a token's aud must contain one of them; required
	JWKSURL   string   // jwks_url: URL of its keys; default from discovery
	// algorithms: permitted signature algorithms, of RS256, RS384, RS512, PS256, PS384, PS512, ES256, ES384,
	// ES512 and EdDSA; default RS256, PS256, ES256 and EdDSA
	Algorithms  []string
	Leeway      time.Duration // leeway: permitted clock skew, 0s to 5m; default 60s
	MaxLifetime time.Duration // max_lifetime: maximum lifetime of a token, 1m to 8760h; default any
	// refresh: interval of requests for its keys, plus or minus a tenth, 1s to 24h; default 5m
	Refresh time.Duration
	// max_stale: how long known keys are valid while it is unavailable, 1m to 720h; default 24h
	MaxStale time.Duration
	CAFile   string // ca_file: authorities that may vouch for it, PEM; default the system's
	Insecure bool   // insecure: true permits cleartext HTTP; for tests only
	// id_tokens: true accepts tokens that are marked as ID tokens of a login; default false
	IDTokens bool
	Tenant   string        // tenant: tenant of all its tokens; default from a claim
	Scopes   tenant.Scopes // scopes: scopes of all its tokens; default invoke and read, or from a claim
	// asserts: names that callers may assert with x-user-id and x-agent-id, in place of the claims: user,
	// agent; default none
	Asserts tenant.Asserts
	Claims  Claims // claims: names of the claims with the identity
	// scope_names: scopes for the values of claims.scopes; other values are ignored; default the scopes' own
	// names
	ScopeNames map[string]tenant.Scopes
	Required   map[string]string // required_claims: required values of claims, or elements of lists; default none
}

// Claims are names of claims.
type Claims struct {
	Tenant string // tenant: default tenant_id
	User   string // user: default sub; required in each token
	Agent  string // agent: default none
	Scopes string // scopes: a list, or words separated by spaces; default none
}

// ServerTLS is TLS of the public port. It is off when CertFile is empty.
type ServerTLS struct {
	CertFile string // cert_file: certificate chain, PEM; with key_file
	KeyFile  string // key_file: its private key, PEM
	// client_ca_file: authorities of client certificates, PEM; default none, and no certificate is requested
	ClientCAFile string
	// client_auth: optional permits connections without a certificate, and verifies one that is sent; require,
	// the default, needs one
	Optional bool
}

// Redis is the store that replicas share. The file has the URL alone, or a mapping with a url.
type Redis struct {
	// url: see redisurl.Parse; default "embedded", one inside the process that is not shared
	URL string
	// password_file: file with the password, without the final newline; overrides the url's; default none
	PasswordFile string
	CAFile       string // ca_file: authorities of a rediss server, PEM; default the system's
	CertFile     string // cert_file: client certificate, PEM, with key_file; default none
	KeyFile      string // key_file: its private key, PEM
	// server_name: name in the server's certificate; default the host of the address
	ServerName string
	// timeout: how long a command may take before Redis counts as unavailable, 1ms to 10s; default 250ms
	Timeout time.Duration
	// wait_replicas: how many Redis replicas must have the redemption of an approval, or the claim of an
	// idempotency key, before the call runs, 1 to 10; default 0, none
	WaitReplicas int
	// store_key_file: keys that sign records that grant something, one a line of 32 bytes in base64 or hex: the
	// first signs, all verify; default none, and nothing is signed
	StoreKeyFile string
	// store_key_accept_unsigned: true accepts unsigned records, during the introduction of a store_key_file;
	// default false
	Unsigned bool
	// wait_timeout: how long that may take before the call is rejected, 10ms to 10s; default 1s
	WaitTimeout time.Duration
}

// Replicas is how replicas share the probing. It should be the same for all replicas, except for the id.
type Replicas struct {
	// id: this replica's name, unique, without spaces, at most 128 bytes; default auto: the host's name and a
	// random suffix
	ID string
	// heartbeat: interval of heartbeats; a replica without one for a quarter longer is dead, and others take
	// over its probes, 200ms to 1m; default 2s
	Heartbeat time.Duration
	// reconcile: interval at which each replica compares its state with Redis, in case it missed a change, 1s
	// to 10m; default 10s
	Reconcile time.Duration
	// stale: time without a probe after which the state of a backend is unknown, and calls may go there, 5s to
	// 1h; default 30s
	Stale time.Duration
}

// Policies are the authorization rules that replicas share in Redis. Without rules, manifests and fleets alone
// decide about calls.
type Policies struct {
	Enabled bool // the file has a policies block, even an empty one: policies: {}
	Shadow  bool // shadow: true counts decisions that candidate rules would change; default false
	Cache   int  // cache: cached decisions, 16 to 10000000; default 100000
	// ttl: how long a decision is cached, plus or minus a fifth, in case a change was missed, 1s to 1h; default
	// 1m
	TTL time.Duration
	// max_stale: how long cached decisions are used while Redis is unavailable; then calls are rejected, 10s to
	// 24h; default 10m
	MaxStale time.Duration
}

// Shield is an OpenParallax Shield. It has either an address or a url.
type Shield struct {
	Name    string        // name: letters, digits, hyphens, dots and underscores, at most 63; unique, and not none
	Address string        // address: host:port of its gRPC server
	URL     string        // url: of its HTTP form, the path included, as in http://shield:9090/evaluate
	TLS     BackendTLS    // tls: to it; default cleartext for an address, the system's authorities for https
	Timeout time.Duration // timeout: timeout of a request, 1ms to 30s; default 500ms
	// on_failure: verdict about calls while it does not respond: allow, ask or block; an invalid response never
	// allows; default block
	OnFailure call.Verdict
	Cache     int // cache: cached verdicts, until they expire, 0 to 1000000; 0: none; default 10000
}

// Approvals are calls that need a person's approval. It should be the same for all replicas.
type Approvals struct {
	TTL        time.Duration // ttl: time to answer, and then to make the call, 1s to 24h; default 10m
	SessionTTL time.Duration // session_ttl: how long an answer for a session is valid, 1s to 720h; default 1h
	// key_file: keys that encrypt arguments in Redis, AES-256, in base64 or hex, one a line: the first
	// encrypts, all decrypt; default none, and only a preview with masked secrets is stored
	KeyFile string
	// max_pending: approvals of a tenant that wait for an answer or their call, 1 to 100000; default 10000
	MaxPending int
}

// Idempotency is about stored responses of calls with idempotency keys. It should be the same for all replicas.
type Idempotency struct {
	// ttl: how long a response is stored for repeated calls, and a key cannot be reused, 1s to 720h; default
	// 24h
	TTL time.Duration
	// max_answer: maximum size of a stored response, in bytes, 1 to 4194304; a repeated call with a larger one
	// gets an error; default 65536
	MaxAnswer int
	MaxKeys   int // max_keys: stored keys of a tenant, 1 to 1000000; default 10000
	// key_file: keys that encrypt responses in Redis, as approvals.key_file, which is the default; without
	// either, calls with idempotency keys are rejected, unless Redis is embedded
	KeyFile string
}

// Webhook is a URL that gets events of approvals. It is in the approvals block.
type Webhook struct {
	URL string // url: URL of a request for each event, http or https
	// secret_file: secrets that sign requests, one a line: whsec_ and base64, or 24 bytes or more verbatim; all
	// sign
	SecretFile string
	Events     []string      // events: asked, approved, denied, used, released, expired; default [asked]
	Timeout    time.Duration // timeout: timeout of a request, 100ms to 1m; default 10s
	Attempts   int           // attempts: maximum number of requests for one event, 1 to 100; default 10
	// proxy: environment uses the proxy of HTTPS_PROXY and HTTP_PROXY, none uses no proxy; default none
	Proxy bool
}

// DNS is the resolution of dns:///… backends.
type DNS struct {
	Server  string        // server: ip:port of the DNS server; default the system's
	Resolve time.Duration // resolve: interval of lookups, plus or minus a tenth, 10ms to 1h; default 5s
}

// Registration is what backends that register themselves may do.
type Registration struct {
	// allow: permitted addresses although they are loopback, link-local, cloud metadata, multicast or reserved;
	// IP addresses or prefixes; default none
	Allow []netip.Prefix
	// capabilities: patterns, in which * stands for any text, of capabilities without a fleet that may be
	// registered, and then get a fleet with defaults; default none
	Capabilities []string
	Policy       call.Verdict // policy: policy of these capabilities, as of a fleet; default block
	// manifests: true lets a backend send the manifest of its capability, with its tools and recommended
	// policies, for fleets that name none; default false, and a backend with a manifest is rejected
	Manifests        bool
	MinTTL           time.Duration // min_ttl: minimum lease, 1s to 1h; default 5s
	Max              int           // max: all registrations, 0 to 100000; default 10000
	MaxPerCapability int           // max_per_capability: registrations of one capability, 0 to 100000; default 1000
}

// Drain is the shutdown of the gateway.
type Drain struct {
	// delay: time between failing readiness and the first refused connection, for load balancers to notice;
	// default 5s
	Delay time.Duration
	// timeout: time for calls to finish after that; default 20s, so that both fit into Kubernetes' 30s
	Timeout time.Duration
}

// Log is what the gateway logs.
type Log struct {
	Level  slog.Level // level: debug, info, warn or error; default info
	Format string     // format: text or json; default json
}

// Metrics are settings of metrics.
type Metrics struct {
	// tenants: how many tenants, those of the file with limits and then the first that call, have series of
	// their own; all others share tenant="other", 0 to 10000; default 100
	Tenants int
}

// Overload are the limits of this process. Beyond them calls are rejected, first those of tenants above their
// fair share.
type Overload struct {
	Off bool // overload: off disables the limits
	// max_in_flight: concurrent calls, 1 to 100000000; default one for each 16 KiB of memory of the process
	MaxInFlight int
	MaxMemory   int64 // max_memory: live bytes; default three quarters of the process's memory limit
	// max_delay: how long the input of a connection may wait, throughout a tenth of a second, 100µs to 10s;
	// default 10ms, and 100ms without tenants, which need no protection from each other
	MaxDelay time.Duration
}

// Traces are the traced calls and the collector of their spans. Tracing is off if Endpoint is empty.
type Traces struct {
	// endpoint: an OpenTelemetry collector, host:port for OTLP over gRPC, or a URL for OTLP over HTTP, with
	// /v1/traces as the default path
	Endpoint string
	TLS      BackendTLS // tls: to it; default cleartext for host:port, the system's authorities for https
	// headers_file: headers of each request, such as a credential, one "name: value" a line; default none
	HeadersFile string
	Sample      float64 // sample: fraction of traced calls among those that begin a trace here, 0 to 1; default 0.01
	// follow: true lets callers decide with traceparent; false: sample alone decides; default true
	Follow  bool
	Service string // service: service.name of the spans; default capgate
	// queue: spans that wait for the collector, 100 to 1000000; further spans are dropped and counted; default
	// 4096
	Queue   int
	Timeout time.Duration // timeout: timeout of a request, 100ms to 1m; default 10s
}
