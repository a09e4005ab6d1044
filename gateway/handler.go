package gateway

import (
	"google.golang.org/grpc/codes"

	"github.com/capgate/capgate/gateway/client"
	"github.com/capgate/capgate/gateway/filter"
	"github.com/capgate/capgate/gateway/filter/accesslog"
	"github.com/capgate/capgate/gateway/filter/authenticate"
	"github.com/capgate/capgate/gateway/filter/authorize"
	"github.com/capgate/capgate/gateway/filter/bandwidth"
	"github.com/capgate/capgate/gateway/filter/forward"
	"github.com/capgate/capgate/gateway/filter/overload"
	"github.com/capgate/capgate/gateway/filter/peek"
	"github.com/capgate/capgate/gateway/filter/ready"
	"github.com/capgate/capgate/gateway/filter/trace"
	"github.com/capgate/capgate/gateway/filter/translate"
	"github.com/capgate/capgate/gateway/frontdoor/fairqueue"
	"github.com/capgate/capgate/gateway/frontdoor/web"
	"github.com/capgate/capgate/gateway/localgrpc"
	"github.com/capgate/capgate/gateway/relay"
	"github.com/capgate/capgate/gateway/status"
	"github.com/capgate/capgate/internal/call"
	overloads "github.com/capgate/capgate/internal/overload"
	"github.com/capgate/capgate/internal/telemetry"
)

// handler builds the shared filters, and passes the relay's calls to the driver (driver.go, attempt.go). The relay
// calls it with a shard locked, so its methods must not block.
type handler struct {
	cfg        *Config
	callers    *authenticate.Callers
	translator *localgrpc.Server // between the dialects
	services   *localgrpc.Server // the gateway's own gRPC services
	guard      *localgrpc.Server // of OpenParallax engines

	authorize  *authorize.Filter
	assertions *forward.Assertions
	bandwidth  *bandwidth.Filter
	overload   *overload.Filter
	reader     *peek.Reader
	ready      *ready.Filter
	trace      trace.Filter

	chain     *chain
	driver    *driver
	statuses  *status.Cache
	calls     callPool
	hosts     *web.Hosts
	shares    *shares
	fairQueue *fairqueue.Queue
	relay     *relay.Relay // calls the handler
}

// newHandler builds the chain and the filters that the rest of the Gateway uses. guard serves calls of engines. The
// caller must set the relay.
func newHandler(cfg *Config, own *shares, q *fairqueue.Queue, guard *localgrpc.Server) *handler {
	cfg.Policy.Memory = own.deciding
	statuses := status.NewCache()
	h := &handler{
		cfg:        cfg,
		callers:    authenticate.NewCallers(cfg.Callers.Authenticator, cfg.Callers.Signed),
		translator: translate.NewServer(q, maxMessage, refuse),
		services: &localgrpc.Server{Name: "services", Own: true, Unknown: status.UnknownMethod,
			MaxMessage: maxMessage},
		guard:     guard,
		authorize: authorize.New(cfg.Policy),
		bandwidth: bandwidth.New(bandwidth.Config{Metrics: cfg.Observe.Metrics, Accounts: own.calls,
			Replicas: cfg.Callers.Replicas}),
		assertions: forward.NewAssertions(cfg.Routing.Assert, q, own.deciding),
		overload:   overload.New(interfaceOf[overload.Shedder](cfg.Capacity.Overload)),
		trace:      trace.New(cfg.Observe.Tracer),
		ready:      ready.New(cfg.Routing.Expedite, own.unready),
		driver:     newDriver(statuses),
		statuses:   statuses,
		calls:      make(callPool, cfg.Relay.Shards),
		shares:     own,
		fairQueue:  q,
	}
	h.hosts = web.NewHosts(h.callers, cfg.Clients.Hosts)
	h.reader = peek.NewReader(peek.Config{
		MaxMessage: maxMessage, Memory: own.inflating, Tables: cfg.Routing.Router,
		ReadsMessages: h.authorize.ReadsMessages,
	})
	h.chain = newChain(h)
	return h
}

// interfaceOf returns a pointer as an interface, which is nil if the pointer is nil.
func interfaceOf[I, T any](p *T) (i I) {
	if p != nil {
		i = any(p).(I)
	}
	return i
}

// accesslog returns the filter that records calls: of clients, or of the gateway itself.
func (h *handler) accesslog(gateway bool) accesslog.Filter {
	return accesslog.New(accesslog.Config{
		Recorder: h.cfg.Observe.Recorder, Audit: h.cfg.Observe.Audit, Quiet: h.overload.Quiet, Gateway: gateway,
		Recent: h.cfg.Observe.Recent, History: h.cfg.Observe.History,
	})
}

// authenticate returns the filter that authenticates callers. If metrics is nil, calls are not counted by tenant.
func (h *handler) authenticate(metrics func(*telemetry.TenantMetrics, string) *telemetry.TenantMetrics,
) authenticate.Filter {
	return authenticate.New(authenticate.Config{
		Callers: h.callers, Metrics: metrics, Authenticated: h.Authenticated, Proof: client.Proof})
}

// use returns a tenant's use of resources, for overload.Shedder.
func (h *handler) use(tenant string) overloads.Use {
	own := h.shares
	return overloads.Use{
		Doors: own.bodies.Held(tenant) + own.results.Held(tenant),
		Held:  own.memory.Held(tenant), Moved: h.bandwidth.Moved(tenant),
	}
}

// Exceeded ends a stream that exceeds a limit of its tenant, unless the limit is in shadow mode.
func (h *handler) Exceeded(s *relay.Stream, why relay.Failure) bool {
	t := callOf(s)
	return h.bandwidth.Exceeded(&t.Call, &t.bandwidth, why)
}

// Explain returns the status for a failure of the relay.
func (h *handler) Explain(s *relay.Stream, f relay.Failure) relay.Status {
	t := callOf(s)
	p := t.walk.progress(t, s)
	var refusal *call.Refusal
	switch {
	case f == relay.AccountExceeded && !s.Forwarded():
		refusal = t.OutOfMemory()
	case f == relay.TooManyBytes, f == relay.TooManyMessages:
		refusal = h.bandwidth.Explain(&t.bandwidth, f)
	// the call was not sent, and has no further attempt
	case f == relay.UpstreamLost && p == call.NotSent && t.Fleet != nil:
		refusal = filter.Unreachable(t.Fleet)
	case f == relay.UpstreamReset, f == relay.UpstreamNotGRPC:
		return status.Reset(codes.Code(s.ResetCode()), f, p)
	default:
		return h.statuses.Failure(f, p)
	}
	t.Reason = refusal.Reason
	return h.statuses.Refusal(refusal, p)
}
