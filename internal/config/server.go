package config

import (
	"net/netip"
	"strings"
	"time"

	"github.com/capgate/capgate/gateway/filter/open"
	"github.com/capgate/capgate/gateway/relay/accept"
	"github.com/capgate/capgate/internal/lib/strictyaml"
	"github.com/capgate/capgate/internal/lib/weburl"
)

// ServerTLS is TLS of the public port. It is off when CertFile is empty.
type ServerTLS struct {
	// Certificate chain, PEM.
	CertFile string `yaml:"cert_file" kind:"file" required:""`
	// Private key of the certificate, PEM.
	KeyFile string `yaml:"key_file" kind:"file" required:""`
	// Authorities of client certificates, PEM. Default none, and no certificate is requested.
	ClientCAFile string `yaml:"client_ca_file" kind:"file"`
	// optional permits connections without a certificate, and verifies one that is sent; require needs one.
	Optional bool `yaml:"client_auth" enum:"require,optional" default:"require"`
}

// Check checks that client_auth has an effect.
func (t *ServerTLS) Check(at strictyaml.At) {
	if at.Has("client_auth") && t.ClientCAFile == "" {
		at.Missing("client_ca_file", "required by client_auth: the authorities of client certificates")
	}
}

// Proxies are the trusted load balancers and proxies in front of the public port.
type Proxies struct {
	// Addresses of the proxies, as in [10.0.0.0/8].
	From []netip.Prefix `yaml:"from" required:"" min:"1"`
	// Maximum number of proxies that a call has passed.
	Hops int `yaml:"hops" min:"1" max:"16" default:"16"`
	// Header of the proxies with the client address.
	Header string `yaml:"header" enum:"x-forwarded-for,forwarded" default:"x-forwarded-for"`
}

// REST configures the JSON API.
type REST struct {
	// http makes a tool's own error a 422 with a problem document; result leaves it in the response, with 200. A
	// request may choose with Prefer: errors=http or errors=result.
	HTTPErrors bool `yaml:"tool_errors" enum:"result,http" default:"result"`
}

// MCP configures MCP.
type MCP struct {
	// How long a call that needs a person's approval waits for the answer, if its client cannot show the page of the
	// approval. It has to be less than the clients' own limit of a call, which is often 60 s.
	ApprovalWait time.Duration `yaml:"approval_wait" above:"0" max:"10m" default:"45s"`
	// Tenants with callers that get search_tools and call_tool in place of all their tools; true or "*": all tenants.
	// Default none.
	Search Tenants `yaml:"search"`
}

// Tenants are names of tenants; "*" means all.
type Tenants []string

// Artifacts configures files over HTTP.
type Artifacts struct {
	// Maximum size of one file, or one form of files, in one request.
	MaxSize int64 `yaml:"max_size" kind:"size" default:"1GiB"`
	// Maximum validity of a signed URL.
	MaxURLTTL time.Duration `yaml:"max_url_ttl" min:"1s" max:"168h" default:"1h"`
}

// Audit configures the audit log.
type Audit struct {
	// A file, as in /var/log/capgate/audit.log, or stdout.
	To string `yaml:"to" kind:"file" required:""`
	// true: calls are rejected while they cannot be recorded.
	Required bool `yaml:"required" default:"false"`
}

// Traces are the traced calls and the collector of their spans. Tracing is off if Endpoint is empty. OTEL_SERVICE_NAME
// of the environment is the service.name of the spans, and OTEL_RESOURCE_ATTRIBUTES adds others.
type Traces struct {
	// The collector: host:port for OTLP over gRPC, or a URL for OTLP over HTTP, with /v1/traces as the default path.
	// Leave traces out for no tracing.
	Endpoint string `yaml:"endpoint" kind:"collector" required:""`
	// TLS to the collector. Default cleartext for host:port, the system's authorities for https.
	TLS BackendTLS `yaml:"tls"`
	// Headers of each request, such as a credential, one "name: value" a line.
	HeadersFile string `yaml:"headers_file" kind:"file"`
	// Traced fraction of the calls that begin a trace here.
	Sample float64 `yaml:"sample" min:"0" max:"1" default:"0.01"`
	// true: a caller's traceparent decides; false: sample alone does.
	Follow bool `yaml:"follow" default:"true"`
	// URL at which people see a trace, with {trace_id} in place of its id, as in
	// https://traces.example.com/t/{trace_id}. The last calls in the admin API have it. Default none.
	Link string `yaml:"link"`
}

// Calls are the last calls, which the admin API shows.
type Calls struct {
	// How many calls of all replicas are kept, in Redis and in the memory of each replica; 0: none, and none are
	// counted. All replicas should have the same value.
	Keep int `yaml:"keep" min:"0" max:"5000" default:"500"`
	// How many calls of each tenant can be searched, in Redis; 0: none but those above. One needs up to 600 bytes.
	Past int `yaml:"past" min:"0" max:"100000" default:"2000"`
	// Days after which such a call is deleted.
	PastDays int `yaml:"past_days" min:"1" max:"30" default:"7"`
}

// History has the numbers of the calls of the last seven days, by fleet, backend, tool and tenant.
type History struct {
	// How many series of each of the four kinds Redis keeps; further ones count as other. 0: none, and no history is
	// kept. 100 series that are called in every minute of a week need up to 7 MB in Redis.
	Series int `yaml:"series" min:"0" max:"5000" default:"200"`
}

// traceID is the placeholder of Traces.Link.
const traceID = "{trace_id}"

// Check checks that TLS has an effect, and the template of links.
func (t *Traces) Check(at strictyaml.At) {
	if t.Link != "" {
		// Some viewers route by the fragment. It is checked as a part of the path.
		link := strings.NewReplacer(traceID, "0", "#", "/").Replace(t.Link)
		_, err := weburl.Parse(link, "https://traces.example.com/t/"+traceID)
		switch {
		case err != nil:
			at.Fail("link", "%s", err)
		case len(t.Link) > 1024:
			at.Fail("link", "is longer than 1024 bytes")
		case !strings.Contains(t.Link, traceID):
			at.Fail("link", "it lacks "+traceID)
		}
	}
	if t.TLS.Enabled && strings.HasPrefix(t.Endpoint, "http:") {
		at.Fail("tls", "the endpoint is not https")
	}
}

// ClientLimits bounds the resources of one replica that clients use by their network. It counts those that need no
// credential.
type ClientLimits struct {
	// Concurrent connections. Further ones wait in the backlog. A network may have a quarter of them, and an eighth is
	// reserved for networks that authenticated in the last hour. A quarter may be calls that need no credential, such
	// as Health/Watch and reflection.
	Connections int `yaml:"connections" min:"16" max:"1000000" default:"16384"`
	// Addresses without these limits, besides trusted_proxies; []: none.
	Exempt []netip.Prefix `yaml:"exempt" default:"[127.0.0.0/8, '::1/128']"`
}

// Accept returns the limits of connections.
func (c *ClientLimits) Accept() accept.Limits {
	return accept.Limits{MaxConns: c.Connections, MaxNetworkConns: c.Connections / 4, ReservedConns: c.Connections / 8,
		MaxHandshakes: max(c.Connections/32, 8)}
}

// OpenCalls returns the limits of calls that need no credential.
func (c *ClientLimits) OpenCalls() open.Limits {
	return open.Limits{All: max(c.Connections/4, 1), Network: max(c.Connections/32, 1),
		Connection: min(100, max(c.Connections/32, 1))}
}

// Overload are the limits of this process.
type Overload struct {
	// Off is true for overload: off.
	Off bool `yaml:"-" enum:"off" scalar:""`
	// Live bytes. Default three quarters of the process's memory limit. There may be a call for each 16 KiB of memory
	// of the process.
	MaxMemory int64 `yaml:"max_memory" kind:"size"`
	// Maximum wait of the input of a connection, throughout a tenth of a second. Default 10ms, and 100ms without
	// tenants, which need no protection from each other.
	MaxDelay time.Duration `yaml:"max_delay" min:"100µs" max:"10s"`
}
