package gateway

import (
	"github.com/capgate/capgate/gateway/filter"
	"github.com/capgate/capgate/gateway/relay"
	"github.com/capgate/capgate/internal/audit"
	"github.com/capgate/capgate/internal/telemetry"
)

// accessLog records a call once, however often it passed here.
type accessLog struct {
	h       *handler
	gateway bool // the calls are made by the gateway itself
}

// Admit implements filter.Filter.
func (accessLog) Admit(*filter.Call, *callState) filter.Step { return filter.Continue }

// Done implements filter.Filter.
func (f accessLog) Done(_ *filter.Call, t *callState, r *filter.Result) {
	var made telemetry.Record // not in record: it would be on the heap for every call
	rec := f.record(t, &t.crossing, r.Result, &made)
	if rec != nil {
		t.Span.End(rec)
		f.h.recorder.Record(rec)
	}
	f.recordAudit(t, rec)
}

// record is what is to be recorded of a call now; nil where another passage of it does that.
func (f accessLog) record(t *callState, s *crossingState, r *relay.Result, rec *telemetry.Record) *telemetry.Record {
	left := f.h.crossings.left(t)
	if !s.had() {
		if left.translated() {
			return left.ends.first(t, r)
		}
		return nil
	}
	if left != nil && t.Reason == "" {
		t.Reason = left.ends.reason(r)
		t.Shed = t.Reason == filter.OverFairShare.Reason // it would have been translated or kept
	}
	*rec = t.recordOf(r)
	rec.Quiet = t.Shed && f.h.overload.Quiet(r.Started)
	if s.before.translated() {
		t.Span.EndAttempt(rec)
		if !s.before.ends.second(rec) {
			return nil
		}
	}
	return rec
}

// recordAudit records a call that has ended; rec is nil where that is done elsewhere.
func (f accessLog) recordAudit(t *callState, rec *telemetry.Record) {
	switch log := f.h.audit; {
	case log == nil:
	case rec != nil && !rec.Quiet:
		log.RecordCall(&audit.Call{
			Call: &t.Info, Client: rec.Client, Request: rec.RequestID, Trace: rec.Trace, Gateway: f.gateway,
			Decided: rec.Decision.Made, Verdict: rec.Decision.Verdict, Level: rec.Decision.Level, Approval: rec.Decision.Approval,
			Code: telemetry.CodeName(rec.Code), Reason: rec.Reason, Failure: rec.Failure, Outcome: rec.Outcome.String(), Replayed: rec.Replayed, Started: rec.Started, Took: rec.Ended,
		}, t.audit.Reserved)
	case t.audit.Reserved:
		log.Release()
	}
}

// recordOf is what is to be recorded of a call that ended with r.
func (t *callState) recordOf(r *relay.Result) telemetry.Record {
	rec := telemetry.Record{
		Call: &t.Info, Client: t.Client.Address, Capability: t.Metrics(), Tenant: t.Principal.Metrics, InFlight: t.InFlight, Shard: uint32(t.Stream.Shard()), RequestID: t.RequestID,
		Code: r.Code, Reason: t.Reason, Shadowed: t.Shadowed, Trace: t.Trace, Traced: t.Span != nil, Failure: r.Failure.String(), BytesIn: r.BytesIn, BytesOut: r.BytesOut,
		Started: r.Started, Forwarded: r.Forwarded, FirstByte: r.FirstByte, Ended: r.Ended,
	}
	rec.Shed = t.Shed
	if t.Decision.Made {
		rec.Decision = telemetry.Decision{Made: true, Level: t.Decision.Level, Verdict: t.Decision.Verdict, Cached: t.Decision.Cached,
			Differs: t.Decision.Differs, Candidate: t.Decision.Candidate, Approval: t.Decision.Approval}
	}
	if t.Endpoint != nil && !t.Attempt.Elsewhere {
		rec.Backend = t.Endpoint.Addr
	}
	if r.Code == 0 {
		rec.Outcome = t.Outcome
	}
	if t.errand != nil {
		t.errand.record(&rec)
	}
	t.crossing.before.lengthen(&rec)
	return rec
}
