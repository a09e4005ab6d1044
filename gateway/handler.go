package gateway

import (
	"log/slog"
	"strings"

	"github.com/capgate/capgate/gateway/dialect"
	"github.com/capgate/capgate/gateway/edge"
	"github.com/capgate/capgate/gateway/relay"
	"github.com/capgate/capgate/internal/audit"
	"github.com/capgate/capgate/internal/call"
	"github.com/capgate/capgate/internal/observe"
	"github.com/capgate/capgate/internal/observe/tracing"
	"github.com/capgate/capgate/internal/tenant/limits"
	"github.com/capgate/capgate/router"
	"github.com/capgate/capgate/router/affinity"
)

// maxTries is how many backends are asked for a call that provably did not start, or
// that may be carried out twice.
const maxTries = 2

// metadata that names the capability, and the call.
const (
	capabilityHeader = "x-capability-id"
	requestIDHeader  = "x-request-id"
)

// handler is the way of a call. The relay calls it with a shard locked, so nothing
// in it blocks.
type handler struct {
	edge          *edge.Edge
	audit         *audit.Log // nil: there is none
	callers       *callers
	decider       Decider
	deliberations *deliberations
	router        *router.Router
	recorder      *observe.Recorder
	metrics       *observe.Metrics
	tracer        *tracing.Tracer // nil: no call is traced
	services      *relay.Upstream // the gateway's own gRPC services
	guard         *guard          // of OpenParallax engines
	keeping       *keeping        // of answers; nil: no call may have an idempotency key
	log           *slog.Logger
	statuses      *statuses
	limits        *limits.Limiter // nil: none
	inflater      *inflater
	crossings     *crossings
	affinity      *affinity.Keeper
	transits      transitPool
	shedding      shedding
	shares        *shares
	flows         flows
	answers       answers
	openings      openings
}

// Headers begins a call. The way goes on in identified, at once for a caller who is known.
func (h *handler) Headers(s *relay.Stream) {
	t := h.transits.get(s)
	startDeadline(s)
	h.come(s, t)
	h.identify(s, t)
}

// identified goes on once it is known who calls. Where the first message matters, the way
// goes on in Message.
func (h *handler) identified(s *relay.Stream, t *transit, refusal *call.Refusal) {
	if refusal == nil {
		refusal = t.wellFormed(s)
	}
	if refusal == nil {
		refusal = h.shedding.admit(s, t)
	}
	if refusal == nil {
		refusal = h.flows.join(s, t)
	}
	if refusal != nil {
		h.refuse(s, t, refusal)
		return
	}
	if t.before != nil { // all was read in its first passage
		h.pass(s, t, first{})
		return
	}
	switch t.call.Method {
	case call.Invoke, call.StreamInvoke, call.DownloadOutputArtifact:
		s.ReadOnlyMessage()
	case call.Healthcheck:
		// A Healthcheck is answered here, and not before its caller has asked: some take
		// an early answer for a broken stream.
		s.ReadMessage()
	default:
		if t.engine != nil && t.engine.Session != 0 {
			s.ReadOnlyMessage()
			return
		}
		h.pass(s, t, first{})
	}
}

// Message reads the routing fields out of the first message and goes on.
func (h *handler) Message(s *relay.Stream, msg relay.Message) {
	t := transitOf(s)
	switch {
	case msg.Missing:
		h.refuse(s, t, refusedNoMessage)
	case t.call.Method == call.Healthcheck:
		h.pass(s, t, first{}) // its message says nothing
	case msg.Compressed && h.named(t, t.keyOf(s, "")):
		h.pass(s, t, first{}) // its message need not be unpacked
	case msg.Compressed:
		if refusal := h.inflater.start(s, t, msg.Data, h.unpacked); refusal != nil {
			h.refuse(s, t, refusal)
			return
		}
		t.span.Wait(tracing.ForMessage)
	default:
		h.plainMessage(s, msg.Data, nil)
	}
}

func (h *handler) unpacked(s *relay.Stream, msg []byte, refusal *call.Refusal) {
	transitOf(s).span.GoOn(tracing.ForMessage)
	h.plainMessage(s, msg, refusal)
}

func (h *handler) plainMessage(s *relay.Stream, msg []byte, refusal *call.Refusal) {
	t := transitOf(s)
	var m first
	if refusal == nil {
		m, refusal = t.read(s, msg)
	}
	if refusal != nil {
		h.refuse(s, t, refusal)
		return
	}
	h.pass(s, t, m)
}

// pass is the first half of the line that the package's drawing shows; identify came
// before it. m is what the first message says.
func (h *handler) pass(s *relay.Stream, t *transit, m first) {
	refusal := h.resolve(s, t, m.capability)
	if refusal == nil && !t.own {
		t.setDeadline(s)
	}
	if refusal == nil {
		refusal = t.keepTo(s, m)
	}
	if refusal == nil {
		refusal = t.readPlace(s, m)
	}
	if refusal == nil {
		refusal = t.readOne()
	}
	if refusal == nil {
		refusal = h.readKey(s, t)
	}
	if refusal == nil {
		refusal = h.admitToAudit(t)
	}
	if refusal != nil {
		h.refuse(s, t, refusal)
		return
	}
	h.afford(s, t, m)
}

// decided is the second half; record (Done) comes after it. The message is not there any
// more: the call may have waited.
func (h *handler) decided(s *relay.Stream, t *transit, refusal *call.Refusal) {
	switch {
	case refusal != nil:
		h.refuse(s, t, refusal)
	case t.call.Method == call.Healthcheck:
		s.Reply(healthReply(t.fleet, t.call.Dialect))
	case t.errand != nil && t.before == nil:
		h.keep(s, t)
	default:
		h.place(s, t)
	}
}

// send goes on with the line once the call's place, if it has one, is known.
func (h *handler) send(s *relay.Stream, t *transit, refusal *call.Refusal) {
	if refusal == nil && !t.own && !t.assigned && t.fleet.Limited() {
		h.enter(s, t)
		return
	}
	if refusal == nil {
		refusal = h.route(t)
	}
	h.routed(s, t, refusal)
}

// routed goes on with the line for a call whose backend is chosen.
func (h *handler) routed(s *relay.Stream, t *transit, refusal *call.Refusal) {
	if refusal == nil && !t.own && t.call.Method != call.Other && t.target.Stranger() && h.meet(s, t) {
		return
	}
	h.met(s, t, refusal)
}

// meet lets a call wait until it is known which dialect its backend speaks.
func (h *handler) meet(s *relay.Stream, t *transit) bool {
	return t.target.Meet(func() func() {
		parked := s.Park()
		t.span.Wait(tracing.ForBackend)
		return func() {
			parked.Resume(func(s *relay.Stream) {
				t := transitOf(s)
				t.span.GoOn(tracing.ForBackend)
				h.met(s, t, nil)
			})
		}
	})
}

// met goes on with the line for a call whose backend is known.
func (h *handler) met(s *relay.Stream, t *transit, refusal *call.Refusal) {
	switch {
	case refusal != nil:
		h.refuse(s, t, refusal)
	case t.adapts():
		h.forward(s, t)
	default:
		h.suit(s, t)
	}
}

// resolve finds the fleet that the call means, if it is there for the caller.
func (h *handler) resolve(s *relay.Stream, t *transit, capability string) (refusal *call.Refusal) {
	if t.own {
		return nil
	}
	if t.fleet, refusal = h.router.Table().Resolve(t.keyOf(s, capability), t.settings); refusal != nil {
		return refusal
	}
	t.call.Capability = t.fleet.Capability
	t.metrics = metricsOf(t.fleet)
	if refusal = t.guarded(s); refusal != nil {
		return refusal
	}
	return t.hasMethod()
}

// route chooses where the call goes: a backend, or a service of our own.
func (h *handler) route(t *transit) (refusal *call.Refusal) {
	switch {
	case t.own:
	case t.assigned:
		t.assigned = false
	case t.suited != nil:
		t.target, t.claim = t.suited, t.fleet.Claim(t.suited, true)
		t.suited = nil
	case t.place.Backend != nil:
		t.claim = t.fleet.Claim(t.place.Backend, t.target != nil)
		t.target = t.place.Backend
	default:
		t.target, t.claim, refusal = t.fleet.Route(t.target)
	}
	return refusal
}

// forward hands the stream to the relay.
func (h *handler) forward(s *relay.Stream, t *transit) {
	if t.own {
		s.Forward(h.services)
		return
	}
	if t.engine != nil && t.engine.Guarded && t.before == nil && !t.ours {
		h.leave(s, t)
		s.TapResponse(t)
		s.Forward(h.guard.server.upstream)
		return
	}
	if t.mode == dialect.Convert {
		h.leave(s, t)
		s.TapResponse(t)
		s.Forward(h.services)
		return
	}
	if !t.begun {
		t.begun = true
		h.recorder.Begin(t.metrics, t.tenant, uint32(s.Shard()))
	}
	t.origin.tell(s)
	path := t.call.Path
	if d := t.target.Dialect(); t.call.Method != call.Other {
		if path = t.pathAt(d); d != call.Auto && d != t.spoken.Dialect || t.tries > 0 { // a first try may have gone by another dialect's path
			s.SetPath(path)
		}
	}
	if t.outcome.Reset(t.spoken.Method, t.spoken.Dialect) {
		t.scanned = true
		h.watchArtifacts(t)
		s.TapResponse(t)
	}
	t.traceTry(s, path)
	t.started = true
	s.Forward(upstreamOf(t.target))
}

// Unsent tries another backend: this one provably did not start the call, or the call
// may be carried out twice.
func (h *handler) Unsent(s *relay.Stream, err error) {
	t := transitOf(s)
	t.done(t.unsent(err))
	// Not for the caller: it names addresses.
	h.log.Debug("call not sent", "capability", t.call.Capability, "try", t.tries+1, "error", err)
	if t.target == nil {
		h.refuse(s, t, refusedService)
		return
	}
	t.missed(err)
	h.stay(s, t)
	t.tried, t.moved = t.target, false
	t.span.Missed()
	allowed := t.again
	t.started = t.lost
	t.again = false
	if t.tries++; t.tries >= maxTries || t.engine != nil || !allowed && !t.fleet.AllowRetry() {
		h.refuse(s, t, unreachable(t.fleet))
		return
	}
	if t.wait > 0 {
		h.retryLater(s, t.wait)
		return
	}
	h.placeAgain(s, t)
}

// refuse answers with the gateway's own "no".
func (h *handler) refuse(s *relay.Stream, t *transit, refusal *call.Refusal) {
	t.reason = refusal.Reason
	s.Refuse(h.statuses.of(refusal))
}

// Done is the last step, record.
func (h *handler) Done(s *relay.Stream, r *relay.Result) {
	t := transitOf(s)
	t.waiter.Leave()
	if t.share != nil {
		t.share.Done()
	}
	h.openings.end(t.opening)
	had := h.had(t)
	if h.limits != nil {
		h.limits.Release(uint32(s.Shard()), &t.permit)
	}
	t.done(t.learned(r))
	if t.quit != nil {
		t.quit()
	}
	if !t.started {
		h.deliberations.release(t.use)
	}
	if r.Forwarded > 0 {
		t.place.Pinned.Used()
	}
	if had && t.before != nil && t.errand != nil {
		t.errand.end(t.fate(r))
	}
	h.record(s, t, r, had)
	h.transits.put(t)
}

// record records a call once, however often it passed here.
func (h *handler) record(s *relay.Stream, t *transit, r *relay.Result, had bool) {
	var rec *observe.Record
	switch left := h.crossings.left(t); {
	case had:
		if left != nil && t.reason == "" {
			t.reason = left.ends.reason(r)
			t.shed = t.reason == refusedHeavy.Reason // it would have been translated or kept
		}
		made := t.recordOf(s, r)
		made.Quiet = t.shed && h.shedding.quiet(r.Started)
		if rec = &made; t.before.translated() {
			t.span.Answered(rec)
			if !t.before.ends.second(rec) {
				rec = nil
			}
		}
	case left.translated():
		rec = left.ends.first(t, r)
	}
	if rec != nil {
		t.span.End(rec)
		h.recorder.Record(rec)
	}
	h.recordAudit(t, rec)
}

// isOwn tells the services that the gateway itself offers.
func isOwn(path string) bool {
	return strings.HasPrefix(path, "/grpc.reflection.") || strings.HasPrefix(path, "/grpc.health.v1.") || strings.HasPrefix(path, "/capgate.v1.")
}
