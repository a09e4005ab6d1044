package gateway

import (
	"log/slog"

	"github.com/capgate/capgate/gateway/dialect"
	"github.com/capgate/capgate/gateway/filter/authorize"
	"github.com/capgate/capgate/gateway/filter/bandwidth"
	"github.com/capgate/capgate/gateway/filter/overload"
	"github.com/capgate/capgate/gateway/filter/peek"
	"github.com/capgate/capgate/gateway/filter/ratelimit"
	"github.com/capgate/capgate/gateway/filter/retry"
	"github.com/capgate/capgate/gateway/frontdoor/fairqueue"
	"github.com/capgate/capgate/gateway/localgrpc"
	"github.com/capgate/capgate/gateway/relay"
	"github.com/capgate/capgate/internal/audit"
	"github.com/capgate/capgate/internal/call"
	"github.com/capgate/capgate/internal/clientaddr"
	"github.com/capgate/capgate/internal/lib/fairshare"
	"github.com/capgate/capgate/internal/telemetry"
	"github.com/capgate/capgate/internal/telemetry/tracing"
	"github.com/capgate/capgate/router"
	"github.com/capgate/capgate/router/affinity"
)

// metadata that names the capability, and the call.
const (
	requestIDHeader = "x-request-id"
)

// handler is what filters have in common, and tells the driver what the relay says of calls. The relay calls it with a
// shard locked, so nothing in it blocks.
type handler struct {
	clientAddr  *clientaddr.Resolver
	audit       *audit.Log // nil: there is none
	callers     *callers
	authorize   *authorize.Filter
	router      *router.Router
	recorder    *telemetry.Recorder
	metrics     *telemetry.Metrics
	tracer      *tracing.Tracer    // nil: no call is traced
	services    *localgrpc.Server  // the gateway's own gRPC services
	guard       *guard             // of OpenParallax engines
	idempotency *idempotencyServer // nil: no call may have an idempotency key
	translator  *localgrpc.Server  // between the dialects
	log         *slog.Logger
	statuses    *statuses
	ratelimit   *ratelimit.Filter
	reader      *peek.Reader
	chain       *chain
	driver      *driver
	affinity    *affinity.Resolver
	calls       callPool
	overload    *overload.Filter
	shares      *shares
	bandwidth   *bandwidth.Filter
	relay       *relay.Relay // that calls the handler
	fairQueue   *fairqueue.Queue
	answers     answers
	openings    openings
}

// newHandler makes the filters and their chain. What needs the relay comes later.
func newHandler(cfg *Config, own *shares) *handler {
	h := &handler{
		clientAddr: cfg.ClientAddr,
		audit:      cfg.Audit,
		callers:    newCallers(cfg.Authenticator, cfg.Signed),
		router:     cfg.Router,
		recorder:   cfg.Recorder,
		metrics:    cfg.Metrics,
		tracer:     cfg.Tracer,
		statuses:   newStatuses(),
		authorize:  newAuthorize(cfg, own.deciding),
		affinity:   cfg.Affinity,
		ratelimit:  newRatelimit(cfg, own),
		log:        cfg.Log,
		overload:   newOverload(cfg),
		bandwidth:  bandwidth.New(bandwidth.Config{Metrics: cfg.Metrics, Accounts: own.calls, Replicas: cfg.Replicas}),
		shares:     own,
		openings:   openings{most: cfg.OpenCalls.withDefaults()},
	}
	h.reader = peek.NewReader(peek.Config{
		MaxMessage: maxMessage, Memory: own.inflating, Tables: cfg.Router, Heeds: h.authorize.Heeds,
	})
	h.driver = newDriver(h.statuses)
	h.chain = newChain(h)
	h.answers.set(cfg.Hosts)
	return h
}

// newRatelimit makes the filter of tenants' limits. Without a limiter it limits nothing.
func newRatelimit(cfg *Config, own *shares) *ratelimit.Filter {
	var by ratelimit.Limiter
	if cfg.Limits != nil {
		by = cfg.Limits
	}
	return ratelimit.New(by, own.deciding)
}

func newAuthorize(cfg *Config, memory *fairshare.Pool) *authorize.Filter {
	return authorize.New(authorize.Config{
		Decider: cfg.Decider, Shield: cfg.Shield, Approver: cfg.Approver, Describe: cfg.Describe, Tools: cfg.Tools,
		Memory: memory,
	})
}

func newOverload(cfg *Config) *overload.Filter {
	if cfg.Overload == nil {
		return overload.New(nil)
	}
	return overload.New(cfg.Overload)
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
	case *arrival:
		t.auth.arrival, t.Client = v, v.client
	case *ownCall:
		t.Attempt.Address = v.backend
		h.driver.begin(t, h.chain.ofGateway(t))
		return
	default:
		h.come(s, t)
		if !s.Peer().Internal {
			h.fairQueue.CallArrived()
		}
	}
	h.driver.begin(t, h.chain.of(t))
}

// proceed goes on with a call on a stream that continues it.
func (h *handler) proceed(s *relay.Stream, t *callState) {
	if t.walk.over {
		h.driver.begin(h.calls.get(s), h.chain.late)
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
	h.log.Debug("call not sent", "capability", t.Info.Capability, "try", t.Attempt.Past+1, "error", err)
	h.driver.again(t, err)
}

// Again says whether a call that its backend may have carried out is made once more.
func (h *handler) Again(s *relay.Stream, a relay.Answer) bool {
	t := callOf(s)
	return !t.walk.serves(relayed{s}) && retry.Again(&t.Call, &t.retry, a)
}

// repeat says whether a call that did not start makes another attempt; nil: it does.
func repeat(t *callState, _ error) *call.Refusal {
	return retry.Repeat(&t.Call, &t.retry, t.walk.list.attempts)
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
	var refusal *call.Refusal
	switch t := callOf(s); {
	case f == relay.AccountExceeded && !s.Forwarded():
		refusal = t.OutOfMemory()
	case f == relay.TooManyBytes, f == relay.TooManyMessages:
		refusal = h.bandwidth.Explain(&t.bandwidth, f)
	default:
		return h.statuses.explain(f)
	}
	callOf(s).Reason = refusal.Reason
	return h.statuses.of(refusal)
}
