package app

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/netip"
	"os"
	"sync"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/capgate/capgate/gateway"
	"github.com/capgate/capgate/gateway/admin/approval"
	"github.com/capgate/capgate/gateway/admin/calls"
	"github.com/capgate/capgate/gateway/admin/registration"
	"github.com/capgate/capgate/gateway/admin/tenants"
	"github.com/capgate/capgate/gateway/builtin/listing"
	"github.com/capgate/capgate/gateway/builtin/signing"
	"github.com/capgate/capgate/gateway/engine"
	"github.com/capgate/capgate/gateway/filter/authorize"
	"github.com/capgate/capgate/gateway/frontdoor/cors"
	"github.com/capgate/capgate/gateway/frontdoor/mcp/tools"
	"github.com/capgate/capgate/gateway/frontdoor/rest"
	"github.com/capgate/capgate/gateway/upstream"
	"github.com/capgate/capgate/health"
	"github.com/capgate/capgate/internal/audit"
	"github.com/capgate/capgate/internal/clientaddr"
	"github.com/capgate/capgate/internal/config"
	"github.com/capgate/capgate/internal/drains"
	"github.com/capgate/capgate/internal/idempotency"
	"github.com/capgate/capgate/internal/lib/recovery"
	"github.com/capgate/capgate/internal/overload"
	"github.com/capgate/capgate/internal/ratelimit"
	"github.com/capgate/capgate/internal/recent"
	"github.com/capgate/capgate/internal/redisstore"
	"github.com/capgate/capgate/internal/registry"
	"github.com/capgate/capgate/internal/settings"
	"github.com/capgate/capgate/internal/telemetry"
	"github.com/capgate/capgate/internal/telemetry/tracing"
	"github.com/capgate/capgate/internal/tenant"
	"github.com/capgate/capgate/policy"
	"github.com/capgate/capgate/policy/approvals"
	"github.com/capgate/capgate/policy/approvals/webhook"
	"github.com/capgate/capgate/policy/catalog"
	"github.com/capgate/capgate/policy/extauthz"
	"github.com/capgate/capgate/router"
	"github.com/capgate/capgate/router/affinity"
)

// App is everything that a serving capgate consists of, built bottom to top.
type App struct {
	options     Options
	log         *slog.Logger
	level       *slog.LevelVar // of log and accessLog
	accessLog   *telemetry.AccessLog
	metrics     *telemetry.Metrics
	tracer      *tracing.Tracer // nil: no call is traced
	routing     *router.Router
	store       *redisstore.Store
	replica     string // unique name of this replica
	registry    *registry.Registry
	prober      *health.Prober
	drains      *drains.Manager
	affinity    *affinity.Resolver
	reloader    *reloader
	firstProbes *firstProbes
	ejections   ejections
	tools       *catalog.Catalog
	// toolsChanged is sent when the tools of callers may have changed: those of a capability, or a rule about them.
	toolsChanged tools.ViewChanges
	listing      *listing.Server
	discovery    *catalog.Discoverer
	decider      *policy.Decider
	rules        *redisstore.Policies // nil: no stored rules
	approvals    *approvals.Service
	idempotency  *idempotency.Service
	engines      engine.Shared // of OpenParallax
	upstreams    upstream.Protocols
	room         upstream.Room // of their sessions

	webhooks     *webhook.Group // and other destinations of notices
	approvalsAPI *approval.Service
	pending      approvals.Backlogs // for metrics
	shields      *extauthz.Shields
	limits       *router.Limits
	shedder      *overload.Shedder // nil: no load shedding
	auth         authentication
	operators    operators // of the admin API
	persons      persons   // who sign in with a browser

	signatures *tenant.Signatures // of URLs
	signing    *signing.Server    // makes URLs
	tenantsAPI *tenants.Service
	clientAddr *clientaddr.Resolver
	quotas     *ratelimit.Limiter // of tenants
	audit      *audit.Log         // also without audit.to: then of changes alone
	recent     *recent.Log        // the last calls and changes
	calls      *calls.Service
	gateway    *gateway.Gateway
	public     net.Listener
	admin      net.Listener
	listeners  []gateway.Listener
}

// Options are what a process takes from its environment.
type Options struct {
	Log               io.Writer
	Version, Revision string             // of the program
	RuntimeDir        string             // for the file with the start token; "": there is no such file
	File              string             // of the configuration, which is loaded again when it changes; "": no file
	Overrides         settings.Overrides // of the file
	HangUp            <-chan os.Signal   // also loads the file; may be nil
}

// New makes a process that listens but does not serve yet.
func New(s *settings.Settings, o Options) (p *App, err error) {
	cfg, w := s.Config, o.Log
	p = &App{options: o, replica: replicaID(s.Config.Replicas.ID), level: new(slog.LevelVar), ejections: newEjections()}
	p.level.Set(cfg.Log.Level)
	p.log = telemetry.NewLogger(cfg.Log.Format, p.level, w)
	recovery.LogTo(p.log)
	defer func() {
		if err != nil {
			p.Close()
		}
	}()
	if err = p.listen(s); err != nil {
		return p, err
	}
	p.accessLog = newAccessLog(s, w, p.level)
	metrics, err := p.newMetrics(cfg.Metrics)
	if err != nil {
		return p, err
	}
	if err = p.newTracer(s, metrics); err != nil {
		return p, err
	}
	if err = p.openAudit(cfg, metrics); err != nil {
		return p, err
	}
	if p.store, err = openStore(s.Store, p.log); err != nil {
		return p, err
	}
	p.newRecent(s)
	p.limits = router.NewLimits(p.sharedLimits())
	p.newQuotas(s, metrics)
	p.newUpstreams()
	p.reloader = newReloader(p, s)
	p.registry = registry.New(p.store.Registrations(), registrySettings(cfg),
		registry.Options{Log: p.log, Changed: p.reloader.nudge, Manifest: registration.ReadManifest})
	first := p.reloader.planner.plan(s, nil)
	table, err := router.NewTable(first.routes, nil)
	if err != nil {
		return p, err
	}
	p.upstreams.Set(first.served)
	p.newCatalog(first.tools)
	p.routing, p.firstProbes = router.New(table), newFirstProbes()
	p.prober = p.newProber(first.probes, cfg.Replicas)
	p.clientAddr = clientaddr.New(clientAddrConfig(s.Config))
	if err = errors.Join(metrics.Add(p.store, p.quotas, p.reloader, p.registry, p.tools, p.prober, p.clientAddr),
		p.newAuthentication(s, metrics), p.newOperators(s), p.newDecider(cfg.Policies, metrics),
		p.newShields(s, first.shields, metrics), p.newApprovals(s, metrics), p.newIdempotency(s, metrics)); err != nil {
		return p, err
	}
	if err = p.newEngines(metrics); err != nil {
		return p, fmt.Errorf("metrics: %w", err)
	}
	p.drains = drains.New(p.replica, p.store.Drains(), drainedFleets{p.routing}, p.log)
	p.affinity = affinity.New(affinity.Config{Log: p.log}, p.store.Sessions())
	return p, p.newGateway(s, first, metrics)
}

// newGateway puts the gateway together, when all that it needs is there.
func (p *App) newGateway(s *settings.Settings, first *plan, metrics *telemetry.Metrics) error {
	routes, err := p.AdminServices()
	if err != nil {
		return err
	}
	share := newMemoryPools(p.newShedder(s.Config))
	p.listing = listing.New(p.tools, p.decider, gateway.GRPCStatus)
	p.newSignatures(s)
	p.gateway, err = gateway.New(gateway.Config{
		Relay: p.relayConfig(s, share),
		Clients: gateway.Clients{Addr: p.clientAddr, Hosts: hostsOf(s.Config), Listeners: p.listeners,
			OpenCalls: openCallsOf(&s.Config.ClientLimits),
			Exempt:    append([]netip.Prefix{}, s.Config.ClientLimits.Exempt...)}, // empty: none
		Callers: gateway.Callers{Authenticator: p.auth.authenticator(), Signed: p.signatures, Limits: p.quotas,
			Replicas: p.sharers()},
		Policy: authorize.Config{Decider: p.decider, Shield: p.shields, Approver: p.approvals, Describe: p.describe,
			Tools: p.toolNames},
		Routing: gateway.Routing{Router: p.routing, TLS: first.tlsOf, Local: p.upstreams.Serve, Affinity: p.affinity,
			Expedite: p.expedite, Idempotency: p.idempotency, Engines: p.engines,
			Discovery: gateway.Discovery{Lists: p.tools.Lists, Tools: p.listing.Discovered}},
		Doors: gateway.Doors{REST: restOf(s.Config), MCP: p.mcp(s.Config, first), CORS: cors.Config(s.Config.CORS),
			Inbox: p.persons.inbox, Services: p.registerBuiltins},
		Admin: gateway.Admin{Services: routes, Guard: p.operators.guard, TLS: p.adminTLSConfig()},
		Observe: gateway.Observe{Metrics: metrics, Recorder: telemetry.NewRecorder(metrics, p.accessLog),
			Audit: p.written(), Recent: p.recent, Tracer: p.tracer},
		Ready: gateway.ReadyChecks{Redis: redisState(p.store), Warnings: p.redisWarnings(),
			Unread: p.unread(s.Config.Redis.ReadyWithout),
			Loads:  func() gateway.ConfigState { return p.reloader.loads.Load().detail() }},
		Capacity: gateway.Capacity{MaxMemory: share.all, MaxBodies: share.bodies, Overload: p.shedder},
		Drain:    drainOf(s.Config),
		Leaving:  p.leave,
		Log:      p.log,
	})
	if err == nil {
		p.bindGateway(s)
	}
	return err
}

// bindGateway passes the new gateway on to what was there before it.
func (p *App) bindGateway(s *settings.Settings) {
	p.room.Charge(p.gateway.Sessions(), gateway.GRPCStatus)
	p.gateway.Single(s.Single(s.Config.Multi))
}

// leave ends what would go on after the last call.
func (p *App) leave() {
	p.approvalsAPI.Leave()
	p.calls.Leave()
}

// restOf is how the JSON API is set up.
func restOf(cfg *config.Config) rest.Config {
	c := rest.Config{Files: filesOf(cfg.Artifacts), Wings: engineRoutes()}
	if cfg.REST.HTTPErrors {
		c.ToolErrors = rest.HTTPErrors
	}
	return c
}

func (p *App) listen(s *settings.Settings) (err error) {
	if p.public, err = listen("listen", s.Config.Listen); err == nil {
		p.admin, err = listen("admin", s.Config.Admin)
	}
	if err != nil {
		return err
	}
	return p.openListeners(s)
}

func (p *App) newProber(fleets []health.Fleet, cfg config.Replicas) *health.Prober {
	return health.New(fleets, health.Options{Logger: p.log, Shared: p.shared(cfg), Changed: func(s *health.Snapshot) {
		p.routing.SetHealth(s)
		p.firstProbes.probed(s)
		p.discovery.Healthy(s.Capability, s.Up() > 0)
	}})
}

// expedite asks for early probes of a capability's backends, for which calls wait.
func (p *App) expedite(capability string) {
	p.prober.Expedite(capability)
	p.registry.Expedite(capability)
}

func (p *App) newMetrics(cfg config.Metrics) (*telemetry.Metrics, error) {
	m, err := telemetry.NewMetrics(prometheus.NewRegistry(),
		telemetry.MetricsConfig{Version: p.options.Version, Revision: p.options.Revision, Log: p.accessLog, Tenants: cfg.Tenants})
	if err != nil {
		return nil, fmt.Errorf("metrics: %w", err)
	}
	p.metrics = m
	return m, nil
}

func drainOf(cfg *config.Config) gateway.Drain {
	return gateway.Drain(cfg.Drain)
}

// Run serves until ctx ends and everything is drained. Calls that come before the
// first look at the backends is over wait in the listener's backlog.
func (p *App) Run(ctx context.Context) error {
	probing, stop := context.WithCancel(context.WithoutCancel(ctx)) // also while calls finish
	var watchers sync.WaitGroup
	watchers.Go(func() { p.registry.Run(probing) })
	if err := p.settle(ctx); err != nil {
		p.log.Error("backends of DNS names and registrations are left out", "error", err)
	}
	p.firstProbes.begin(p.reloader.planner.probes())
	watchers.Go(func() { p.prober.Run(probing) })
	watchers.Go(func() { p.affinity.Run(probing) })
	watchers.Go(recovery.Loop(probing, "ejections", func() { p.ejections.run(probing, p.log) }))
	watchers.Go(recovery.Loop(probing, "reload", func() { p.reloader.run(probing) }))
	p.drains.Read(ctx) // no call goes to a backend that is drained
	watchers.Go(func() { p.drains.Run(probing) })
	watchers.Go(func() { p.limits.Run(probing) })
	watchers.Go(recovery.Loop(probing, "overload", func() { p.watchOverload(probing) }))
	watchers.Go(func() { p.quotas.Run(probing) })
	watchers.Go(recovery.Loop(probing, "rules", func() { p.followRules(probing) }))
	watchers.Go(func() { p.auth.follow(probing) })
	p.persons.sessions.Read(ctx) // no revoked session is good
	watchers.Go(func() { p.persons.sessions.Run(probing) })
	watchers.Go(recovery.Loop(probing, "cancellations", func() {
		p.store.Cancellations().Watch(probing, p.gateway.CancelMCP, func() {})
	}))
	watchers.Go(recovery.Loop(probing, "bandwidth", func() { p.gateway.WatchRates(probing, p.auth.directory) }))
	p.tools.Read(ctx) // no call finds a tool that has drifted, and is not known to have
	watchers.Go(func() { p.tools.Run(probing) })
	asking, cease := context.WithCancel(ctx) // not while calls finish
	watchers.Go(recovery.Loop(asking, "discovery", func() { p.discovery.Run(asking) }))
	watchers.Go(recovery.Loop(probing, "approvals", func() { p.approvals.Run(probing) }))
	watchers.Go(recovery.Loop(probing, "approvals", func() {
		p.pending.Run(probing, p.approvals, p.pendingSource())
	}))
	watchers.Go(recovery.Loop(probing, "tool versions", func() { p.tools.KeepVersions(probing, p.store.Versions()) }))
	escalations := approvals.NewEscalations(p.approvals, p.pendingSource().Tenants)
	watchers.Go(recovery.Loop(probing, "escalations", func() { escalations.Run(probing) }))
	watchers.Go(recovery.Loop(probing, "recent calls", func() { p.recent.Run(probing) }))
	watchers.Go(recovery.Loop(probing, "idempotency", func() { p.idempotency.Run(probing) }))
	watchers.Go(recovery.Loop(probing, "engine turns", func() { p.engines.Turns.Run(probing) }))
	watchers.Go(func() { p.webhooks.Run(probing) })
	watchers.Go(recovery.Loop(probing, "recent tools", func() { p.keepRecent(probing) }))
	p.warm(ctx)
	p.firstProbes.wait(ctx)
	p.log.Info("serving", "listen", p.public.Addr().String(), "admin", p.admin.Addr().String(), "listeners",
		p.addresses(), "fleets", len(p.reloader.started.Fleets), "config", p.options.File)
	p.logTenancy(p.reloader.started)
	err := p.gateway.Run(ctx, p.public, p.admin)
	p.idempotency.Close()
	p.engines.Turns.Close()
	cease()
	stop()
	watchers.Wait()
	p.recent.Close()
	p.log.Info("stopped")
	p.Close()
	return err
}

// Close releases what the process has opened.
func (p *App) Close() {
	for _, ln := range []net.Listener{p.public, p.admin} {
		if ln != nil {
			_ = ln.Close()
		}
	}
	for _, l := range p.listeners {
		_ = l.Socket.Close()
	}
	p.operators.close()
	p.closeTracer()
	if p.audit != nil {
		p.audit.Close()
	}
	p.upstreams.Close()
	if p.shields != nil {
		p.shields.Close()
	}
	if p.store != nil {
		p.store.Close()
	}
	if p.accessLog != nil {
		_ = p.accessLog.Close()
	}
}
