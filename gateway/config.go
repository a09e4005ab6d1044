package gateway

import (
	"cmp"
	"crypto/tls"
	"log/slog"
	"net/netip"
	"time"

	"google.golang.org/grpc"

	"github.com/capgate/capgate/gateway/admin/guard"
	"github.com/capgate/capgate/gateway/engine"
	"github.com/capgate/capgate/gateway/filter/authenticate"
	"github.com/capgate/capgate/gateway/filter/authorize"
	"github.com/capgate/capgate/gateway/filter/discovery"
	"github.com/capgate/capgate/gateway/filter/forward"
	"github.com/capgate/capgate/gateway/filter/open"
	"github.com/capgate/capgate/gateway/frontdoor/connect"
	"github.com/capgate/capgate/gateway/frontdoor/cors"
	"github.com/capgate/capgate/gateway/frontdoor/inbox"
	"github.com/capgate/capgate/gateway/frontdoor/jwks"
	"github.com/capgate/capgate/gateway/frontdoor/mcp/tools"
	"github.com/capgate/capgate/gateway/frontdoor/rest"
	"github.com/capgate/capgate/gateway/frontdoor/web"
	"github.com/capgate/capgate/gateway/relay"
	"github.com/capgate/capgate/internal/audit"
	"github.com/capgate/capgate/internal/clientaddr"
	"github.com/capgate/capgate/internal/history"
	"github.com/capgate/capgate/internal/idempotency"
	"github.com/capgate/capgate/internal/overload"
	"github.com/capgate/capgate/internal/ratelimit"
	"github.com/capgate/capgate/internal/recent"
	"github.com/capgate/capgate/internal/telemetry"
	"github.com/capgate/capgate/internal/telemetry/tracing"
	"github.com/capgate/capgate/router"
	"github.com/capgate/capgate/router/affinity"
)

// Config is the configuration of a Gateway, in groups. A group is the configuration of one part of the Gateway. The
// caller runs and closes what it passes, after the Gateway has stopped, unless the field says otherwise.
type Config struct {
	// Relay holds the limits of connections, streams and memory. The Gateway sets the functions, Responses and
	// Network.
	Relay    relay.Config
	Clients  Clients
	Callers  Callers
	Policy   authorize.Config // the Gateway sets Memory
	Routing  Routing
	Doors    Doors
	Admin    Admin
	Observe  Observe
	Ready    ReadyChecks
	Capacity Capacity
	Drain    Drain
	Leaving  func()       // called at the start of a drain, to end work that would delay it; optional
	Log      *slog.Logger // nil means records are discarded
}

// Clients configures connections of clients.
type Clients struct {
	Addr *clientaddr.Resolver // trusted proxies; nil means none
	// Exempt lists networks without a connection limit, besides trusted proxies. nil means loopback; empty means none.
	Exempt    []netip.Prefix
	Hosts     web.Names   // host names that the ports accept; the zero value accepts loopback and addresses
	Listeners []Listener  // ports besides the public one; Run closes them
	OpenCalls open.Limits // of calls that need no credential
	// Stall is the time for which a client without a credential, or of the admin API, may send no byte of a body or
	// read no byte of a response; default 30s.
	Stall time.Duration
}

// Callers authenticates callers and applies the limits of their tenants.
type Callers struct {
	// authenticates by credential; nil means every call belongs to tenant.Single
	Authenticator authenticate.Authenticator
	Signed        authenticate.Authenticator // authenticates by the signature of a URL; nil means signed URLs are off
	Limits        *ratelimit.Limiter         // nil means tenants have no limits
	Replicas      func() int                 // number of replicas that share the limits; must not block; nil means 1
}

// Routing selects the backend of a call.
type Routing struct {
	Router   *router.Router     // required
	TLS      TLSOf              // TLS of Router's table; nil means cleartext
	Local    LocalOf            // protocols of Router's table other than gRPC; nil means none
	Affinity *affinity.Resolver // nil means sessions are pinned by this replica alone
	// Expedite requests early probes of a capability's backends, for which calls wait. It must not block. If nil, no
	// call waits.
	Expedite func(capability string)
	// Discovery lists tools to callers. The Gateway sets all but Lists and Tools.
	Discovery   discovery.Config
	Idempotency *idempotency.Service // nil means calls with idempotency keys are rejected
	Assert      forward.Signer       // signs assertions for backends; nil means calls that need one are rejected
	Engines     engine.Shared        // state of OpenParallax engines; the zero value rejects their guarded methods
}

// Doors configures the protocols other than gRPC.
type Doors struct {
	REST    rest.Config    // the JSON API; the Gateway sets MaxBody, Unary, EventSource and Owner
	Connect connect.Config // gRPC-Web and Connect
	MCP     tools.Config   // tools that callers see over MCP
	CORS    cors.Config    // other sites whose pages may call; the zero value allows none
	Inbox   *inbox.Config  // page of approvals for people; optional
	Keys    jwks.Keys      // of the assertions; nil means none are published
	// Services registers further gRPC services; optional. tenant.FromContext returns the caller.
	Services func(grpc.ServiceRegistrar)
}

// Admin configures the admin API.
type Admin struct {
	Services func(*guard.Mux) // adds routes; optional
	Guard    *guard.Guard     // nil means no credential is required
	TLS      *tls.Config      // nil means cleartext
}

// Observe configures the records of calls.
type Observe struct {
	Metrics  *telemetry.Metrics  // required
	Recorder *telemetry.Recorder // required
	Audit    *audit.Log          // optional
	Recent   *recent.Log         // recent calls of callers; optional
	History  *history.Log        // numbers of the calls of callers; optional
	Tracer   *tracing.Tracer     // nil means no call is traced
}

// ReadyChecks reports what /readyz shows besides the fleets. All fields are optional.
type ReadyChecks struct {
	Redis    func() string   // state of the shared store
	Warnings func() []string // degraded features
	CutOff   func() bool     // this replica reaches no backend, but others do; the gateway is then not ready
	// Unread returns the stored state that has not been read since the start. While there is some, the gateway is not
	// ready.
	Unread func() []string
	Loads  func() ConfigState // state of the configuration
}

// Capacity limits the memory and concurrency of calls and requests.
type Capacity struct {
	MaxMemory int64 // bytes of calls, requests and connections; default 2 GiB
	MaxBodies int64 // bytes of HTTP requests that are buffered whole, part of MaxMemory; default 256 MiB
	// MaxWaiting is the number of HTTP requests and translated calls of one tenant that may wait to start; default
	// 1024.
	MaxWaiting int
	// Overload sheds load. The caller must call Turn to measure. If nil, no call is shed.
	Overload *overload.Shedder
}

// Drain configures the end of a Gateway.
type Drain struct {
	Delay   time.Duration // between unreadiness and the first GOAWAY; default 0
	Timeout time.Duration // for calls to finish after that; default 0
}

// fill sets the defaults.
func (c *Config) fill() {
	c.Clients.Stall = cmp.Or(c.Clients.Stall, defaultStall)
	if c.Log == nil {
		c.Log = slog.New(slog.DiscardHandler)
	}
	if c.Routing.TLS == nil {
		c.Routing.TLS = func(string) *tls.Config { return nil }
	}
	if c.Routing.Local == nil {
		c.Routing.Local = func(*router.Fleet, string) func(*relay.ServerStream) relay.Status { return nil }
	}
	if c.Clients.Addr == nil {
		c.Clients.Addr = clientaddr.New(clientaddr.Config{})
	}
	if c.Routing.Affinity == nil {
		c.Routing.Affinity = affinity.New(affinity.Config{}, nil)
	}
}
