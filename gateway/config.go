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
	"github.com/capgate/capgate/gateway/filter/open"
	"github.com/capgate/capgate/gateway/frontdoor/connect"
	"github.com/capgate/capgate/gateway/frontdoor/cors"
	"github.com/capgate/capgate/gateway/frontdoor/inbox"
	"github.com/capgate/capgate/gateway/frontdoor/mcp/tools"
	"github.com/capgate/capgate/gateway/frontdoor/rest"
	"github.com/capgate/capgate/gateway/frontdoor/web"
	"github.com/capgate/capgate/gateway/relay"
	"github.com/capgate/capgate/internal/audit"
	"github.com/capgate/capgate/internal/clientaddr"
	"github.com/capgate/capgate/internal/idempotency"
	"github.com/capgate/capgate/internal/overload"
	"github.com/capgate/capgate/internal/ratelimit"
	"github.com/capgate/capgate/internal/recent"
	"github.com/capgate/capgate/internal/telemetry"
	"github.com/capgate/capgate/internal/telemetry/tracing"
	"github.com/capgate/capgate/router"
	"github.com/capgate/capgate/router/affinity"
)

// Config is what a Gateway is made of, in groups. A group belongs to one part of the Gateway, which gets it as a
// value. Its creator runs and closes what it passes, after the Gateway, unless the field says otherwise.
type Config struct {
	// Relay has the limits of connections, streams and memory. The Gateway sets the functions, Responses and Network.
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
	Leaving  func()       // called when calls are to finish, to end what would go on; nil means nothing else goes on
	Log      *slog.Logger // nil means records are discarded
}

// Clients is who may connect, and how.
type Clients struct {
	Addr *clientaddr.Resolver // trusted proxies; nil means none
	// Exempt has addresses whose networks may have any number of connections, besides trusted proxies. nil means
	// loopback; empty: none.
	Exempt    []netip.Prefix
	Hosts     web.Names   // names that the ports accept; the zero value accepts loopback's and addresses
	Listeners []Listener  // ports besides the public one; Run closes them
	OpenCalls open.Limits // of calls that need no credential
	// Stall is how long a client without a credential, or of the admin API, may send nothing of a body, or read
	// nothing of a response; default 30 s.
	Stall time.Duration
}

// Callers finds the tenant of a call, and holds it to the tenant's limits.
type Callers struct {
	Authenticator authenticate.Authenticator // by credential; nil means every call is of tenant.Single
	Signed        authenticate.Authenticator // by the signature of a URL; nil means no URL is signed
	Limits        *ratelimit.Limiter         // nil means tenants have no limits
	Replicas      func() int                 // that share the limits; it must not block; nil means this one alone
}

// Routing finds the backend of a call.
type Routing struct {
	Router   *router.Router     // required
	TLS      TLSOf              // of Router's table; nil means all backends are reached in cleartext
	Local    LocalOf            // of Router's table; nil means all backends are reached over gRPC
	Affinity *affinity.Resolver // nil means sessions of this gateway alone
	// Expedite requests early probes of a capability's backends, for which calls wait. It must not block. nil means no
	// call waits.
	Expedite func(capability string)
	// responses of tools that list the others; the Gateway sets all but Lists and Tools
	Discovery   discovery.Config
	Idempotency *idempotency.Service // of calls with idempotency keys; nil means they are rejected
	Engines     engine.Shared        // state of OpenParallax engines; the zero value rejects their guarded methods
}

// Doors are the ways to call besides gRPC.
type Doors struct {
	REST    rest.Config    // the JSON API; the Gateway sets MaxBody, Unary, EventSource and Owner
	Connect connect.Config // gRPC-Web and Connect
	MCP     tools.Config   // the tools of callers over MCP
	CORS    cors.Config    // pages of other sites that may call; the zero value allows none
	Inbox   *inbox.Config  // page of approvals for people; nil means none
	// Services registers further gRPC services. tenant.FromContext returns the caller. nil adds none.
	Services func(grpc.ServiceRegistrar)
}

// Admin is the port of the admin API.
type Admin struct {
	Services func(*guard.Mux) // adds to what the port serves; nil means nothing
	Guard    *guard.Guard     // nil means no credential is needed
	TLS      *tls.Config      // nil means cleartext
}

// Observe records calls.
type Observe struct {
	Metrics  *telemetry.Metrics  // required
	Recorder *telemetry.Recorder // required
	Audit    *audit.Log          // nil means no audit log
	Recent   *recent.Log         // of calls of callers; nil means they are not listed
	Tracer   *tracing.Tracer     // nil means no call is traced
}

// ReadyChecks is what /readyz reports besides the fleets. It says nothing of a check that is nil.
type ReadyChecks struct {
	Redis    func() string   // the state of the store that replicas share
	Warnings func() []string // what works, but not as it should
	CutOff   func() bool     // this replica reaches no backend, and others do; the gateway is not ready then
	// state of the store not read since the start; the gateway is not ready while there is some
	Unread func() []string
	Loads  func() ConfigState // loads of the configuration
}

// Capacity bounds what calls and requests take.
type Capacity struct {
	MaxMemory int64 // bytes of calls, requests and connections together; default 2 GiB
	MaxBodies int64 // of these, bytes of requests over HTTP that are read whole before they are calls; default 256 MiB
	// MaxWaiting is how many requests over HTTP, and calls that are translated, of one tenant wait to begin; default
	// 1024.
	MaxWaiting int
	// Overload sheds load. Its creator calls Turn to measure. nil means no call is shed.
	Overload *overload.Shedder
}

// Drain is how a Gateway stops.
type Drain struct {
	Delay   time.Duration // between readiness off and the first GOAWAY; default none
	Timeout time.Duration // for calls to finish after that; default none
}

// fill sets what a Config may lack.
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
