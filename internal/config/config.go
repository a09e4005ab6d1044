package config

import (
	"strings"
	"sync"
	"time"

	"github.com/capgate/capgate/gateway/frontdoor/cors"
	"github.com/capgate/capgate/gateway/frontdoor/mcp"
	"github.com/capgate/capgate/gateway/frontdoor/rest"
	"github.com/capgate/capgate/gateway/relay/accept"
	"github.com/capgate/capgate/health"
	"github.com/capgate/capgate/internal/audit"
	"github.com/capgate/capgate/internal/clientaddr"
	"github.com/capgate/capgate/internal/history"
	"github.com/capgate/capgate/internal/idempotency"
	"github.com/capgate/capgate/internal/lib/strictyaml"
	"github.com/capgate/capgate/internal/lib/tlsfiles"
	"github.com/capgate/capgate/internal/overload"
	"github.com/capgate/capgate/internal/recent"
	"github.com/capgate/capgate/internal/redisstore"
	"github.com/capgate/capgate/internal/registry/sources"
	"github.com/capgate/capgate/internal/telemetry"
	"github.com/capgate/capgate/internal/telemetry/tracing"
	"github.com/capgate/capgate/internal/tenant"
	"github.com/capgate/capgate/internal/tenant/token"
	"github.com/capgate/capgate/internal/toolset"
	"github.com/capgate/capgate/policy/extauthz"
	"github.com/capgate/capgate/router"
)

// Config is a configuration file. The comment of a field is its documentation in the schema and in the reference.
type Config struct {
	// Public address for every protocol, host:port. A network as the host, as in 10.0.7.0/24:8080, is this machine's
	// address in it.
	Listen string `yaml:"listen" kind:"listen" default:":8080" restart:"yes"`
	// Address of the admin API, host:port: metrics, health, pprof, changes. Any other than loopback needs operators.
	Admin string `yaml:"admin" kind:"listen" default:"127.0.0.1:8081" restart:"yes"`
	// Further addresses for clients, each with the capability, tenant and other names of its calls; at most 64.
	Listeners []Listener `yaml:"listeners" restart:"yes"`
	// The store that replicas share: its URL, or a mapping. Calls never wait for it.
	Redis redisstore.Config `yaml:"redis" restart:"yes"`
	// Secrets of all replicas, one a line of 32 bytes in base64 or hex, as openssl rand -base64 32 prints. Keys are
	// derived from them: the first secret signs and encrypts, all verify and decrypt. With it records in Redis are
	// signed; arguments of approvals and stored responses are encrypted there. Replicas resume each other's TLS
	// sessions at ports without client_ca_file. Default none: replicas share a secret in Redis for signed URLs and
	// sessions, and approvals store only previews with masked secrets. A reload uses new secrets for signed URLs,
	// sessions, assertions, TLS session tickets and digests of configurations; the rest needs a restart.
	SecretFile string `yaml:"secret_file" kind:"file" restart:"yes"`
	// Sharing of the probing of backends between replicas with one Redis. All replicas should have the same values,
	// except for the id.
	Replicas health.Shared `yaml:"replicas" restart:"yes"`
	// Domains of capabilities: weather.<domain> as :authority names the capability weather.
	Domains []string `yaml:"domains" kind:"domain" unique:"true"`
	// Names at which the public port answers callers without credentials, besides localhost, addresses and domains.
	// *.example.com: all below it; "*": any.
	Hosts []string `yaml:"hosts" kind:"host"`
	// Names at which the admin API answers, besides localhost and the address of the connection, as hosts.
	AdminHosts []string `yaml:"admin_hosts" kind:"host"`
	// URL at which people reach the public port, as in https://capgate.example.com: the beginning of links in notices,
	// and of the redirect after a sign-in. Default none: notices have no links, and a redirect goes to the request's
	// host. Capitals in the host, the port of the scheme, and slashes at the end make no difference.
	PublicURL string `yaml:"public_url" kind:"public_url"`
	// URL at which operators reach the admin API, as public_url.
	AdminURL string `yaml:"admin_url" kind:"public_url"`
	// The gateway's zone. Calls prefer backends of the same zone while enough of them are usable. Default no
	// preference.
	Zone string `yaml:"zone" kind:"zone"`
	// TLS on the public port. Default cleartext.
	TLS tlsfiles.Server `yaml:"tls" restart:"switch"`
	// Load balancers and proxies in front of the public port, which report client addresses. Reports of other clients
	// are ignored.
	Proxies clientaddr.Config `yaml:"trusted_proxies"`
	// Version of the PROXY protocol at the beginning of connections from trusted_proxies.
	ProxyProtocol clientaddr.Protocol `yaml:"proxy_protocol" enum:"off,v1,v2" default:"off"`
	// ConnectionAge has max_connection_age.
	ConnectionAge accept.Age `yaml:",inline"`
	// Shutdown of the gateway.
	Drain Drain `yaml:"drain"`
	// The log on standard error.
	Log telemetry.LogConfig `yaml:"log"`
	// Labels of metrics.
	Metrics telemetry.MetricsConfig `yaml:"metrics" restart:"yes"`
	// The JSON API.
	REST rest.Config `yaml:"rest" restart:"yes"`
	// The tools of callers over MCP.
	MCP mcp.Settings `yaml:"mcp"`
	// Named lists of tools for callers over MCP, at /mcp/NAME; at most 64 of a tenant. Default none.
	Toolsets []toolset.Toolset `yaml:"toolsets"`
	// Origins of pages that may call from browsers. Default none.
	CORS cors.Config `yaml:"cors" restart:"yes"`
	// Files over HTTP. All fields but max_size should be the same for all replicas.
	Artifacts Artifacts `yaml:"artifacts" restart:"yes"`
	// Resources of this replica that clients may use by their network: an IPv4 address, or an IPv6 /64. Trusted proxies
	// are exempt.
	ClientLimits accept.ClientLimits `yaml:"client_limits" restart:"yes"`
	// Limits of this process, beyond which it rejects calls, first those of tenants above their fair share; off: no
	// limits.
	Overload overload.Config `yaml:"overload" restart:"yes"`
	// Spans of calls for an OpenTelemetry collector. Default no tracing.
	Traces tracing.Config `yaml:"traces" restart:"yes"`
	// Capabilities and the backends that serve them; at least one, unless registration.capabilities permits others or
	// Services announce them.
	Fleets []Fleet `yaml:"fleets"`
	// Files, and directories of capabilities, with the manifests of fleets that name none, by their ids.
	Manifests []string `yaml:"manifests" kind:"file"`
	// Sections are those of the sources of backends.
	sources.Sections `yaml:",inline"`
	// Each replica's copy in memory of the rules, tenants and API keys in Redis.
	Cache Cache `yaml:"cache" restart:"yes"`
	// Authorization rules in Redis. Without this block manifests and fleets alone decide about calls.
	Policies Policies `yaml:"policies" restart:"yes"`
	// Calls that need a person's approval, in Redis. All replicas should have the same values.
	Approvals Approvals `yaml:"approvals" restart:"yes"`
	// Stored responses of calls with idempotency keys, in Redis. All replicas should have the same values.
	Idempotency idempotency.Options `yaml:"idempotency" restart:"yes"`
	// OpenParallax Shields, which judge the calls of their fleets that policy allows or asks about. The stricter of the
	// two verdicts counts.
	Shields []extauthz.Config `yaml:"shields"`
	// Name of the shield of all fleets that name none; none: no shield.
	Shield string `yaml:"shield"`
	// Tenants with their API keys. With this block, even an empty one, callers need credentials; without it every
	// caller belongs to the tenant "default".
	Tenants []tenant.Declared `yaml:"tenants"`
	// Tenants and API keys that replicas share in Redis, besides those of the file.
	Identity Identity `yaml:"identity" restart:"yes"`
	// OpenID Connect issuers of tokens (JWTs) that callers may send in place of API keys. The path of a claim is its
	// name, or names with dots between.
	Issuers []token.Issuer `yaml:"issuers"`
	// File with the key of the HMAC-SHA-256 of secrets, at least 16 bytes without the final newline. Default none, and
	// hashes are SHA-256.
	PepperFile string `yaml:"pepper_file" kind:"file"`
	// People and programs that may use the admin API. Without them it is for this machine alone, and needs a token that
	// the gateway prints at its start.
	Operators Operators `yaml:"operators" restart:"parts"`
	// Client certificates of tenants, for calls without a credential; they need tls.client_ca_file. The first entry
	// that matches counts.
	Certificates []tenant.Certificate `yaml:"certificates"`
	// The last calls, which the admin API shows.
	Calls recent.Config `yaml:"calls" restart:"yes"`
	// The numbers of the calls of the last seven days, which the console draws.
	History history.Config `yaml:"history" restart:"yes"`
	// The audit log, a hash chain of records in which changes are detectable. Default none.
	Audit audit.Config `yaml:"audit" restart:"yes"`
	// Limits of each tenant without limits of its own, on all replicas together. Default none.
	Limits tenant.Limits `yaml:"limits"`

	// Multi is true if callers need credentials: the file has tenants, or identity.store.
	Multi bool `yaml:"-"`
	// Named has the files and directories that the file names, and the first place of each.
	Named map[string]Named `yaml:"-"`

	protocols []*Protocol // besides Selu's
}

// Named is a place in the file.
type Named struct {
	File string // name in errors
	Line int    // from 1
}

// Parse parses a configuration file. Errors use name for it. The error is a strictyaml.Errors with all problems of
// the file. Backends may use the given protocols besides Selu's.
func Parse(name string, data []byte, protocols ...*Protocol) (*Config, error) {
	c := &Config{protocols: protocols}
	d := c.decoder(name)
	if root, ok := d.Document(data, "a configuration", "at least one fleet is required"); ok {
		d.Decode(root, c)
	}
	if err := d.Err(); err != nil {
		return nil, err
	}
	c.protocols = nil
	return c, nil
}

// Default returns the configuration of an empty file, which still lacks fleets.
func Default() *Config {
	c := &Config{}
	SetDefaults(c)
	return c
}

// SetDefaults sets the fields of a struct with tags to their defaults.
func SetDefaults(to any) { (&Config{}).decoder("").Default(to) }

// DefaultFleet returns a fleet with the defaults, a capability and backends.
func DefaultFleet(capability string, backends ...string) Fleet {
	f := defaultFleet()
	f.Capability = capability
	for _, addr := range backends {
		f.Backends = append(f.Backends, DefaultBackend(addr))
	}
	return f
}

// defaultFleet is called for every registered capability.
var defaultFleet = sync.OnceValue(func() (f Fleet) {
	SetDefaults(&f)
	return f
})

// DefaultBackend returns a backend with the defaults and an address.
func DefaultBackend(addr string) router.BackendConfig {
	return router.BackendConfig{Addr: addr, Weight: 100}
}

// Check checks fields that depend on other sections.
func (c *Config) Check(at strictyaml.At) {
	c.Multi = at.Has("tenants") || c.Identity.Stored
	c.checkFleets(at.Field("fleets"))
	c.checkShields(at)
	c.checkNotices(at.Field("approvals").Field("notices"))
	c.checkApprovalRules(at)
	c.checkCallers(at)
	c.checkOperators(at.Field("operators"))
	c.checkListeners(at.Field("listeners"))
	checkLimits(at.Field("limits"), &c.Limits)
	if c.Listen == c.Admin && !strings.HasSuffix(c.Listen, ":0") {
		at.Fail("admin", "%s is also the public address; the admin API needs its own address", c.Admin)
	}
	if c.ProxyProtocol != clientaddr.Off && len(c.Proxies.Trusted) == 0 {
		at.Fail("proxy_protocol", "needs trusted_proxies.from, the addresses whose connections begin with it")
	}
	if c.ConnectionAge.Max > 0 && c.ConnectionAge.Max < time.Second {
		at.Fail("max_connection_age", "%v is too short; 1s is the least, and 0s: none", c.ConnectionAge.Max)
	}
	if c.ConnectionAge.Grace > 0 && c.ConnectionAge.Max == 0 {
		at.Fail("max_connection_age_grace", "it has no effect without max_connection_age")
	}
	if c.Redis.AcceptUnsigned && c.SecretFile == "" {
		at.Field("redis").Fail("accept_unsigned", "has no effect without secret_file; leave it out")
	}
	if len(c.Fleets) == 0 && !c.Announced() {
		at.Missing("fleets", "at least one fleet is required")
	}
}

// Drain is the shutdown of the gateway.
type Drain struct {
	// Time between failing readiness and the first refused connection, for load balancers to notice.
	Delay time.Duration `yaml:"delay" default:"5s"`
	// Time for calls to finish after that. The defaults of both fit into Kubernetes' 30 s.
	Timeout time.Duration `yaml:"timeout" default:"20s"`
}
