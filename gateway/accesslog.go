package gateway

import (
	"github.com/capgate/capgate/gateway/dialect"
	"github.com/capgate/capgate/gateway/relay"
	"github.com/capgate/capgate/internal/audit"
	"github.com/capgate/capgate/internal/telemetry"
)

// accessLog records a call once, however often it passed here.
type accessLog struct {
	h       *handler
	gateway bool // the calls are made by the gateway itself
}

// Admit implements filter.
func (accessLog) Admit(*transit, *crossingState) Step { return Continue }

// Done implements filter.
func (f accessLog) Done(t *transit, s *crossingState, r *result) {
	var made telemetry.Record // not in record: it would be on the heap for every call
	rec := f.record(t, s, r.Result, &made)
	if rec != nil {
		t.span.End(rec)
		f.h.recorder.Record(rec)
	}
	f.recordAudit(t, rec)
}

// record is what is to be recorded of a call now; nil where another passage of it does that.
func (f accessLog) record(t *transit, s *crossingState, r *relay.Result, rec *telemetry.Record) *telemetry.Record {
	left := f.h.crossings.left(t)
	if !s.had() {
		if left.translated() {
			return left.ends.first(t, r)
		}
		return nil
	}
	if left != nil && t.reason == "" {
		t.reason = left.ends.reason(r)
		t.shed = t.reason == refusedHeavy.Reason // it would have been translated or kept
	}
	*rec = t.recordOf(r)
	rec.Quiet = t.shed && f.h.shedding.quiet(r.Started)
	if s.before.translated() {
		t.span.Answered(rec)
		if !s.before.ends.second(rec) {
			return nil
		}
	}
	return rec
}

// recordAudit records a call that has ended; rec is nil where that is done elsewhere.
func (f accessLog) recordAudit(t *transit, rec *telemetry.Record) {
	switch log := f.h.audit; {
	case log == nil:
	case rec != nil && !rec.Quiet:
		log.Call(&audit.Call{
			Call: &t.call, Client: rec.Client, Request: rec.RequestID, Trace: rec.Trace, Gateway: f.gateway,
			Decided: rec.Decision.Made, Verdict: rec.Decision.Verdict, Level: rec.Decision.Level, Approval: rec.Decision.Approval,
			Code: telemetry.CodeName(rec.Code), Reason: rec.Reason, Failure: rec.Failure, Outcome: rec.Outcome.String(), Replayed: rec.Replayed, Started: rec.Started, Took: rec.Ended,
		}, t.audit.admitted)
	case t.audit.admitted:
		log.Release()
	}
}

// recordOf is what is to be recorded of a call that ended with r.
func (t *transit) recordOf(r *relay.Result) telemetry.Record {
	rec := telemetry.Record{
		Call: &t.call, Client: t.origin.client, Capability: t.metrics, Tenant: t.tenant, Begun: t.forward.begun, Shard: uint32(t.stream.Shard()), RequestID: t.request,
		Code: r.Code, Reason: t.reason, Trace: t.trace, Traced: t.span != nil, Failure: r.Failure.String(), BytesIn: r.BytesIn, BytesOut: r.BytesOut,
		Started: r.Started, Forwarded: r.Forwarded, FirstByte: r.FirstByte, Ended: r.Ended,
	}
	rec.Shed = t.shed
	if t.authorize.judged {
		rec.Decision = telemetry.Decision{Made: true, Level: t.authorize.decision.Level, Verdict: t.authorize.decision.Verdict, Cached: t.authorize.decision.Cached,
			Differs: t.authorize.decision.Differs, Candidate: t.authorize.decision.Candidate, Approval: t.authorize.approval}
	}
	rec.Shadowed = t.shadowed()
	if t.target != nil && t.crossing.ticket == "" {
		rec.Backend = t.target.Addr
	}
	if t.forward.scanned && r.Code == 0 {
		rec.Outcome = outcomes[t.forward.outcome.Outcome()]
	}
	if t.errand != nil {
		t.errand.record(&rec)
	}
	t.crossing.before.lengthen(&rec)
	return rec
}

// shadowed is the limit that would have refused the call, were it in force; "" if none.
func (t *transit) shadowed() string {
	if l, would := t.ratelimit.permit.Shadowed(); would {
		return l.String()
	}
	return ""
}

var outcomes = [...]telemetry.Outcome{
	dialect.OutcomeUnknown: telemetry.Unjudged,
	dialect.OK:             telemetry.Succeeded,
	dialect.ToolError:      telemetry.ToolError,
	dialect.CutOff:         telemetry.CutOff,
}
