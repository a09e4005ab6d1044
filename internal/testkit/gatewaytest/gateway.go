package gatewaytest

import (
	"cmp"
	"context"
	"errors"
	"log/slog"
	"net"
	"net/netip"
	"runtime/pprof"
	"sync"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"google.golang.org/grpc"

	"github.com/capgate/capgate/gateway"
	"github.com/capgate/capgate/gateway/admin/guard"
	"github.com/capgate/capgate/gateway/engine"
	enginemetrics "github.com/capgate/capgate/gateway/engine/metrics"
	enginerest "github.com/capgate/capgate/gateway/engine/rest"
	"github.com/capgate/capgate/gateway/filter/authenticate"
	"github.com/capgate/capgate/gateway/filter/authorize"
	"github.com/capgate/capgate/gateway/filter/discovery"
	"github.com/capgate/capgate/gateway/filter/forward"
	"github.com/capgate/capgate/gateway/filter/open"
	"github.com/capgate/capgate/gateway/frontdoor/connect"
	"github.com/capgate/capgate/gateway/frontdoor/cors"
	"github.com/capgate/capgate/gateway/frontdoor/mcp/tools"
	"github.com/capgate/capgate/gateway/frontdoor/rest"
	"github.com/capgate/capgate/gateway/frontdoor/web"
	"github.com/capgate/capgate/gateway/relay"
	"github.com/capgate/capgate/health"
	"github.com/capgate/capgate/internal/audit"
	"github.com/capgate/capgate/internal/call"
	"github.com/capgate/capgate/internal/clientaddr"
	"github.com/capgate/capgate/internal/idempotency"
	"github.com/capgate/capgate/internal/overload"
	"github.com/capgate/capgate/internal/ratelimit"
	"github.com/capgate/capgate/internal/telemetry"
	"github.com/capgate/capgate/internal/telemetry/tracing"
	"github.com/capgate/capgate/internal/tenant"
	"github.com/capgate/capgate/internal/testkit/check"
	"github.com/capgate/capgate/policy"
	"github.com/capgate/capgate/policy/catalog"
	docpb "github.com/capgate/capgate/proto/selu/capability"
	"github.com/capgate/capgate/router"
	"github.com/capgate/capgate/router/affinity"
)

// Options configure the gateway under test. Only Fleets is required.
type Options struct {
	Fleets  []Fleet
	Domains []string       // weather.<domain> as :authority names the capability weather
	Relay   relay.Config   // limits of the relay
	Drain   *gateway.Drain // default: no delay, check.Patience for calls to finish

	Store    affinity.Store     // shared by gateways; default none
	Permits  router.PermitStore // shared by gateways; default none
	Affinity affinity.Config    // default Wait: check.Patience
	Policy   policy.Options     // default Source: all fleets allow all tools

	Audit         *audit.Log                 // default none
	ClientAddr    *clientaddr.Resolver       // default: no trusted proxy
	Authenticator authenticate.Authenticator // default: one tenant for all calls
	Signed        authenticate.Authenticator // default: no signed URLs
	MaxWaiting    int                        // as in gateway.Config
	MaxMemory     int64                      // as in gateway.Config
	MaxBodies     int64                      // as in gateway.Config
	OpenCalls     open.Limits                // as in gateway.Config
	Exempt        []netip.Prefix             // as in gateway.Config
	Overload      *overload.Shedder          // its creator calls Tick; default none

	Limits *ratelimit.Limiter // of tenants; run by Start; default none

	REST      rest.Config      // of the JSON API; default zero
	Connect   connect.Config   // of gRPC-Web and Connect; default zero
	MCP       tools.Config     // default none
	Discovery discovery.Config // as in gateway.Config
	CORS      cors.Config      // default: no page of another site may call

	Guard     *guard.Guard     // of the admin API; default: no authentication
	Operators func(*guard.Mux) // as in gateway.Config; default no services
	Stall     time.Duration    // as in gateway.Config

	Hosts web.Names // accepted host names; default loopback and addresses

	Listeners []gateway.Listener // in addition to the public port; default none

	Approver  authorize.Approver   // default none
	Describe  authorize.Describe   // describes tools for approvers; default none
	ToolNames authorize.ToolNames  // default: the tools are unknown
	Answers   *idempotency.Service // of calls with idempotency keys; default none
	Leaving   func()               // as in gateway.Config; default none
	Unread    func() []string      // as in gateway.Config; default none
	CutOff    func() bool          // as in gateway.Config; default never
	// Expedited is called when calls request early probes. It must not block. Default: no effect.
	Expedited func(capability string)
	Assert    forward.Signer              // as in gateway.Config
	Engines   engine.Shared               // shared state of engines; default none, and engines are not guarded
	Shield    authorize.Shield            // default none
	Tracer    *tracing.Tracer             // default none
	Services  func(grpc.ServiceRegistrar) // further services of the public port; default none
	Local     gateway.LocalOf             // of backends that do not speak gRPC; default none
	// Check is called when a backend does not answer a probe. It must not block. Default: no effect.
	Check  func(capability, addr string)
	Closed func() // called when the gateway and its probes have ended; default: no effect
}

// Fleet is one capability and its backends.
type Fleet struct {
	Capability   string
	Services     []string // gRPC services routed here without a capability
	Methods      []string // further gRPC methods
	Backends     []string // addresses
	Dialect      call.Dialect
	Deadlines    router.Deadlines
	Ejection     router.Ejection
	Retries      router.Retries
	Idempotent   []string      // tools
	ApprovalWait time.Duration // as router.FleetConfig's
	Keyed        bool          // the gateway handles idempotency-key over gRPC
	Limit        router.Limit
	SlowStart    time.Duration
	Affinity     router.Affinity
	Reserved     map[string]string // session by the address of its only backend
	Tenant       string            // tenant of the sessions in Reserved; default tenant.Default
	Health       health.Config     // default Interval: an hour, so that a backend is probed once
	Asks         health.Question   // the kind of probe; default Healthcheck
	Protocol     router.Protocol   // of the backends; nil: Selu's
	Sources      []string          // tools that may be called with GET
	Assertion    *router.Assertion // as router.FleetConfig's
	Unprobed     bool              // backends are not probed, and stay usable
}

// Gateway is a serving gateway.
type Gateway struct {
	Addr      string // public host:port
	AdminAddr string // host:port of the admin API
	Log       *Log

	gateway   *gateway.Gateway
	prober    *health.Prober
	affinity  *affinity.Resolver
	limits    *router.Limits
	closed    func()
	tenants   *ratelimit.Limiter
	accessLog *telemetry.AccessLog
	watch     *watch
	label     string // of all its goroutines

	public   net.Listener
	drain    context.CancelFunc
	stopped  chan struct{} // closed when it has stopped
	err      error         // of gateway.Run, once stopped
	stopOnce sync.Once
}

// Start runs a gateway until the test ends, and returns when all backends are probed.
func Start(t testing.TB, o Options) *Gateway {
	t.Helper()
	check.Must(t, labelTraces())
	g := &Gateway{Log: NewLog(), watch: newWatch(), stopped: make(chan struct{})}
	g.label = newLabel(t, g)
	public, admin := check.Listen(t), check.Listen(t)
	g.public = public
	g.Addr, g.AdminAddr = public.Addr().String(), admin.Addr().String()
	// The gateway's goroutines inherit the label, by which leaks are detected.
	pprof.Do(context.Background(), pprof.Labels(labelKey, g.label), func(ctx context.Context) {
		check.Must(t, g.build(o))
		ctx, g.drain = context.WithCancel(ctx)
		go g.run(ctx, public, admin)
	})
	check.Cleanup(t, func() { g.Stop(t) })
	for _, f := range o.Fleets {
		if !f.Unprobed {
			g.WaitHealth(t, f.Capability, func(s *health.Snapshot) bool { return probed(s, len(f.Backends)) })
		}
	}
	return g
}

// build does what internal/app does for a configuration file.
func (g *Gateway) build(o Options) error {
	g.limits = router.NewLimits(router.LimitsConfig{Store: o.Permits, Timeout: check.Patience})
	routes, probes := o.fleets(g.limits)
	decider, err := o.decider()
	if err != nil {
		return err
	}
	table, err := router.NewTable(routes, nil)
	if err != nil {
		return err
	}
	routing := router.New(table)
	logger := slog.New(slog.NewJSONHandler(g.Log, &slog.HandlerOptions{Level: slog.LevelDebug}))
	g.prober = health.New(probes, health.Options{Logger: logger, Changed: func(s *health.Snapshot) {
		routing.SetHealth(s)
		g.watch.tell(s)
	}, Silent: o.check(g)})
	g.accessLog = telemetry.NewAccessLog(g.Log, telemetry.AccessLogConfig{Interval: time.Millisecond})
	metrics, err := telemetry.NewMetrics(prometheus.NewRegistry(),
		telemetry.MetricsConfig{Version: "test", Log: g.accessLog, Tenants: 100})
	if err != nil {
		return err
	}
	counted := enginemetrics.New(func() []string { return engine.Fleets(routing.Table()) }, metrics)
	if err := metrics.Add(counted); err != nil {
		return err
	}
	o.Engines.Meters = counted.Of
	o.bePatient()
	o.Relay.Log = logger
	g.tenants, g.closed = o.Limits, o.Closed
	g.affinity = affinity.New(o.Affinity, o.Store)
	g.gateway, err = gateway.New(g.config(o, decider, routing, metrics, logger))
	return err
}

// config returns the configuration of the gateway under test.
func (g *Gateway) config(o Options, decider *policy.Decider, routing *router.Router, metrics *telemetry.Metrics,
	logger *slog.Logger) gateway.Config {
	return gateway.Config{
		Relay: o.Relay,
		Clients: gateway.Clients{Addr: o.ClientAddr, Exempt: o.Exempt, Hosts: o.Hosts, Listeners: o.Listeners,
			OpenCalls: o.OpenCalls, Stall: o.Stall},
		Callers: gateway.Callers{Authenticator: o.Authenticator, Signed: o.Signed, Limits: o.Limits},
		Policy: authorize.Config{Decider: decider, Shield: o.Shield, Approver: o.Approver, Describe: o.Describe,
			Tools: o.ToolNames},
		Routing: gateway.Routing{Router: routing, Local: o.Local, Affinity: g.affinity, Expedite: o.expedite(g.prober),
			Discovery: o.Discovery, Idempotency: o.Answers, Engines: o.Engines, Assert: o.Assert},
		Doors: gateway.Doors{REST: withEngines(o.REST), Connect: o.Connect, MCP: o.MCP, CORS: o.CORS,
			Services: o.Services},
		Admin: gateway.Admin{Services: o.Operators, Guard: o.Guard},
		Observe: gateway.Observe{Metrics: metrics, Recorder: telemetry.NewRecorder(metrics, g.accessLog),
			Audit: o.Audit, Tracer: o.Tracer},
		Ready: gateway.ReadyChecks{Unread: o.Unread, CutOff: o.CutOff},
		Capacity: gateway.Capacity{MaxMemory: o.MaxMemory, MaxBodies: o.MaxBodies, MaxWaiting: o.MaxWaiting,
			Overload: o.Overload},
		Drain:   *o.Drain,
		Leaving: o.Leaving,
		Log:     logger,
	}
}

// check checks the connections to a backend, and calls Check.
func (o *Options) check(g *Gateway) func(capability, addr string) {
	return func(capability, addr string) {
		g.gateway.Check(capability, addr)
		if o.Check != nil {
			o.Check(capability, addr)
		}
	}
}

// expedite requests early probes, and calls Expedited.
func (o *Options) expedite(p *health.Prober) func(string) {
	if o.Expedited == nil {
		return p.Expedite
	}
	return func(capability string) {
		p.Expedite(capability)
		o.Expedited(capability)
	}
}

// bePatient sets long default timeouts, because a busy machine is slow with many large messages.
func (o *Options) bePatient() {
	if o.Drain == nil {
		o.Drain = &gateway.Drain{Timeout: check.Patience}
	}
	o.Relay.Timeouts.Setup = cmp.Or(o.Relay.Timeouts.Setup, check.Patience)
	o.Relay.Forwarding.RefusedWithin = cmp.Or(o.Relay.Forwarding.RefusedWithin, check.Patience)
	o.Affinity.Wait = cmp.Or(o.Affinity.Wait, check.Patience)
}

func (g *Gateway) run(ctx context.Context, public, admin net.Listener) {
	defer close(g.stopped)
	probing, stop := context.WithCancel(context.WithoutCancel(ctx))
	var beside sync.WaitGroup
	beside.Go(func() { g.prober.Run(probing) })
	beside.Go(func() { g.affinity.Run(probing) })
	beside.Go(func() { g.limits.Run(probing) })
	if g.tenants != nil {
		beside.Go(func() { g.tenants.Run(probing) })
	}
	g.err = g.gateway.Run(ctx, public, admin)
	stop()
	beside.Wait()
	if g.closed != nil {
		g.closed()
	}
	_ = g.accessLog.Close() // a Log never fails
}

// Drain makes the gateway stop, as SIGTERM does, and does not wait.
func (g *Gateway) Drain() { g.drain() }

// Stopped returns a channel that is closed when the gateway has stopped.
func (g *Gateway) Stopped() <-chan struct{} { return g.stopped }

// Stop stops the gateway and fails the test after an error or a leak. The end of the test calls it, too.
func (g *Gateway) Stop(t testing.TB) {
	t.Helper()
	g.stopOnce.Do(func() {
		g.drain()
		check.Received(t, g.stopped, "the gateway to stop")
		if g.err != nil {
			t.Errorf("gateway: %v", g.err)
		}
		if tcp, ok := g.public.(*net.TCPListener); ok && !errors.Is(tcp.SetDeadline(time.Time{}), net.ErrClosed) {
			t.Error("the public port still accepts connections")
		}
		assertNothingLeft(t, g.label)
	})
}

// Invoke calls a tool as the gateway itself does for its own purposes.
func (g *Gateway) Invoke(ctx context.Context, capability string, req *docpb.InvokeRequest) (*docpb.InvokeResponse,
	error) {
	return g.gateway.Invoke(ctx, capability, req)
}

// Bodies returns the used fraction of Options.MaxBodies.
func (g *Gateway) Bodies() float64 { return g.gateway.Bodies() }

// WatchRates calls gateway.Gateway.WatchRates.
func (g *Gateway) WatchRates(ctx context.Context, tenants tenant.Tenants) {
	g.gateway.WatchRates(ctx, tenants)
}

// FindArtifact calls gateway.Gateway.FindArtifact.
func (g *Gateway) FindArtifact(identity tenant.Identity, capability, id string) *call.Refusal {
	return g.gateway.FindArtifact(identity, capability, id)
}

// AskForTools calls a discovery tool.
func (g *Gateway) AskForTools(ctx context.Context, q catalog.DiscoveryCall) (catalog.Answer, error) {
	return g.gateway.AskForTools(ctx, q)
}

// URL returns the URL of a path on the public port.
func (g *Gateway) URL(path string) string { return "http://" + g.Addr + path }

// withEngines adds the routes of engines.
func withEngines(cfg rest.Config) rest.Config {
	cfg.Extensions = append(cfg.Extensions, enginerest.Routes)
	return cfg
}
