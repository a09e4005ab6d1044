package gateway

import (
	"google.golang.org/grpc/codes"

	"github.com/capgate/capgate/gateway/client"
	"github.com/capgate/capgate/gateway/dialect"
	"github.com/capgate/capgate/gateway/filter"
	"github.com/capgate/capgate/gateway/filter/accesslog"
	"github.com/capgate/capgate/gateway/filter/authenticate"
	"github.com/capgate/capgate/gateway/filter/authorize"
	"github.com/capgate/capgate/gateway/filter/bandwidth"
	"github.com/capgate/capgate/gateway/filter/overload"
	"github.com/capgate/capgate/gateway/filter/peek"
	"github.com/capgate/capgate/gateway/filter/ready"
	"github.com/capgate/capgate/gateway/filter/retry"
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

// handler is what filters have in common, and tells the driver what the relay says of calls. The relay calls it with a
// shard locked, so nothing in it blocks.
type handler struct {
	cfg        *Config
	callers    *authenticate.Callers
	translator *localgrpc.Server // between the dialects
	services   *localgrpc.Server // the gateway's own gRPC services
	guard      *localgrpc.Server // of OpenParallax engines

	authorize *authorize.Filter
	bandwidth *bandwidth.Filter
	overload  *overload.Filter
	reader    *peek.Reader
	ready     *ready.Filter
	trace     trace.Filter

	chain     *chain
	driver    *driver
	statuses  *status.Cache
	calls     callPool
	hosts     *web.Hosts
	shares    *shares
	fairQueue *fairqueue.Queue
	relay     *relay.Relay // that calls the handler
}

// newHandler makes the filters that the rest of the Gateway knows, too, and the chain. guard serves calls of engines.
// The relay comes later.
func newHandler(cfg *Config, own *shares, q *fairqueue.Queue, guard *localgrpc.Server) *handler {
	cfg.Policy.Memory = own.deciding
	statuses := status.NewCache()
	h := &handler{
		cfg:        cfg,
		callers:    authenticate.NewCallers(cfg.Callers.Authenticator, cfg.Callers.Signed),
		translator: translate.NewServer(q, maxMessage, refuse),
		services:   &localgrpc.Server{Name: "services", Unknown: status.UnknownMethod, MaxMessage: maxMessage},
		guard:      guard,
		authorize:  authorize.New(cfg.Policy),
		bandwidth: bandwidth.New(bandwidth.Config{Metrics: cfg.Observe.Metrics, Accounts: own.calls,
			Replicas: cfg.Callers.Replicas}),
		overload:  overload.New(interfaceOf[overload.Shedder](cfg.Capacity.Overload)),
		trace:     trace.New(cfg.Observe.Tracer),
		ready:     ready.New(cfg.Routing.Expedite, own.unready),
		driver:    newDriver(statuses),
		statuses:  statuses,
		shares:    own,
		fairQueue: q,
	}
	h.hosts = web.NewHosts(h.callers, cfg.Clients.Hosts)
	h.reader = peek.NewReader(peek.Config{
		MaxMessage: maxMessage, Memory: own.inflating, Tables: cfg.Routing.Router, ReadsMessages: h.authorize.ReadsMessages,
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

// accesslog makes the filter that records calls: of callers, or of the gateway itself.
func (h *handler) accesslog(gateway bool) accesslog.Filter {
	return accesslog.New(accesslog.Config{
		Recorder: h.cfg.Observe.Recorder, Audit: h.cfg.Observe.Audit, Quiet: h.overload.Quiet, Gateway: gateway,
		Recent: h.cfg.Observe.Recent,
	})
}

// authenticate makes the filter that finds out who calls. metrics counts calls by tenant; nil: they are not counted.
func (h *handler) authenticate(metrics func(string) *telemetry.TenantMetrics) authenticate.Filter {
	return authenticate.New(authenticate.Config{Callers: h.callers, Metrics: metrics, Authenticated: h.Authenticated})
}

// use returns what a tenant uses, for overload.Shedder.
func (h *handler) use(tenant string) overloads.Use {
	own := h.shares
	return overloads.Use{
		Doors: own.bodies.Held(tenant) + own.results.Held(tenant),
		Held:  own.memory.Held(tenant), Moved: h.bandwidth.Moved(tenant),
	}
}

// Headers begins a call, or goes on with one that code in the process continues.
func (h *handler) Headers(s *relay.Stream) {
	if served, ok := s.Continues(); ok {
		h.proceed(s, served.(*callState))
		return
	}
	t := h.calls.get(s)
	startDeadline(s)
	switch v := s.RequestValue().(type) {
	case *web.Inherited:
		t.authenticate.Inherited, t.Client, t.idempotency.Given = &v.Inherited, v.Client, v.IdempotencyKeys
		t.authorize.Asked = v.Asked
	case *internalCall:
		t.Client.Protocol = call.Own
		t.Attempt.Address = v.backend
		h.driver.begin(t, h.chain.ofGateway(t))
		return
	default:
		client.Set(h.cfg.Clients.Addr, s, &t.Call)
		t.Client.Protocol = call.Own
		if !s.Peer().Internal {
			t.Client.Protocol = call.GRPC
			h.fairQueue.CallArrived()
		}
	}
	h.driver.begin(t, h.chain.of(t))
}

// proceed goes on with a call on a stream that continues it.
func (h *handler) proceed(s *relay.Stream, t *callState) {
	if t.walk.over {
		h.driver.begin(h.calls.get(s), h.chain.ended)
		return
	}
	s.Value = t
	if e, ok := dialect.Lookup(s.Path()); ok {
		t.Spoken = e
	}
	h.driver.proceed(t, relayed{s})
}

// Message goes on with a call whose first message is there.
func (h *handler) Message(s *relay.Stream, msg relay.Message) {
	t := callOf(s)
	t.Message = msg
	h.driver.walk(t)
}

// Unsent tries another backend: this one provably did not start the call, or the call
// may be carried out twice.
func (h *handler) Unsent(s *relay.Stream, err error) {
	t := callOf(s)
	// Not for the caller: it names addresses.
	h.cfg.Log.Debug("call not sent", "capability", t.Info.Capability, "try", t.Attempt.Past+1, "error", err)
	h.driver.again(t, err)
}

// Again says whether a call that its backend may have carried out is made once more.
func (h *handler) Again(s *relay.Stream, a relay.Answer) bool {
	t := callOf(s)
	again := t.walk.servingOf(relayed{s}) == nil && retry.Again(&t.Call, &t.retry, a)
	if again {
		t.walk.past = call.Sent
	}
	return again
}

// repeat says whether a call that did not start makes another attempt; nil: it does.
func repeat(t *callState, err error) *call.Refusal {
	return retry.Repeat(&t.Call, &t.retry, t.walk.list.attempts, err)
}

// Done ends one of a call's streams.
func (h *handler) Done(s *relay.Stream, r *relay.Result) {
	t := callOf(s)
	if h.driver.done(t, relayed{s}, r); t.walk.over && !t.walk.shared {
		h.calls.put(t)
	}
}

// startDeadline has the caller's own deadline count before the fleet is known: while the credential is
// looked up, and while the first message is read.
func startDeadline(s *relay.Stream) {
	if asked, has := s.Timeout(); has {
		s.SetDeadline(asked)
	}
}

// Exceeded ends a stream that brings more than its tenant's may, unless that is only counted.
func (h *handler) Exceeded(s *relay.Stream, why relay.Failure) bool {
	t := callOf(s)
	return h.bandwidth.Exceeded(&t.Call, &t.bandwidth, why)
}

// Explain is the relay's own reason to end a call, in the words of the one table.
func (h *handler) Explain(s *relay.Stream, f relay.Failure) relay.Status {
	t := callOf(s)
	p := t.walk.progress(t, s)
	var refusal *call.Refusal
	switch {
	case f == relay.AccountExceeded && !s.Forwarded():
		refusal = t.OutOfMemory()
	case f == relay.TooManyBytes, f == relay.TooManyMessages:
		refusal = h.bandwidth.Explain(&t.bandwidth, f)
	case f == relay.UpstreamLost && p == call.NotSent && t.Fleet != nil: // what the backend refused cannot go elsewhere
		refusal = filter.Unreachable(t.Fleet)
	case f == relay.UpstreamReset, f == relay.UpstreamNotGRPC:
		return status.Reset(codes.Code(s.ResetCode()), f, p)
	default:
		return h.statuses.Failure(f, p)
	}
	t.Reason = refusal.Reason
	return h.statuses.Refusal(refusal, p)
}
