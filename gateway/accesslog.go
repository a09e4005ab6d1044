package gateway

import (
	"github.com/capgate/capgate/gateway/filter"
	"github.com/capgate/capgate/gateway/relay"
	"github.com/capgate/capgate/internal/audit"
	"github.com/capgate/capgate/internal/telemetry"
)

// accessLog records each call once.
type accessLog struct {
	h       *handler
	gateway bool // the calls are made by the gateway itself
}

// Admit implements filter.Filter.
func (accessLog) Admit(*filter.Call, *callState) filter.Step { return filter.Continue }

// Done implements filter.Filter.
func (f accessLog) Done(_ *filter.Call, t *callState, r *filter.Result) {
	rec := t.recordOf(r.Result)
	rec.Quiet = t.Shed && f.h.overload.Quiet(r.Started)
	t.Span.End(&rec)
	f.h.recorder.Record(&rec)
	f.recordAudit(t, &rec)
}

// recordAudit records a call that has ended.
func (f accessLog) recordAudit(t *callState, rec *telemetry.Record) {
	switch log := f.h.audit; {
	case log == nil:
	case !rec.Quiet:
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
	if t.Endpoint != nil {
		rec.Backend = t.Endpoint.Addr
	}
	if r.Code == 0 {
		rec.Outcome = t.Outcome
	}
	rec.Replayed = t.keyed != nil && t.keyed.replayed.Load()
	return rec
}
