package gateway

import (
	"github.com/capgate/capgate/internal/audit"
	"github.com/capgate/capgate/internal/call"
	"github.com/capgate/capgate/internal/observe"
)

// admitToAudit sees to it that there is a place for the record of a call that goes on.
func (h *handler) admitToAudit(t *transit) *call.Refusal {
	if h.audit == nil || t.own {
		return nil
	}
	if t.audited = h.audit.Admit(); !t.audited {
		return refusedUnaudited
	}
	return nil
}

var refusedUnaudited = &call.Refusal{Kind: call.Unavailable, Reason: "AUDIT_UNAVAILABLE",
	Message: "the call cannot be recorded, and may not be made without that; try again later"}

// recordAudit records a call that has ended; rec is nil where that is done elsewhere.
func (h *handler) recordAudit(t *transit, rec *observe.Record) {
	switch {
	case h.audit == nil:
	case rec != nil && !rec.Quiet:
		h.audit.Call(&audit.Call{
			Call: &t.call, Client: rec.Client, Request: rec.RequestID, Trace: rec.Trace, Gateway: t.ours,
			Decided: rec.Decision.Made, Verdict: rec.Decision.Verdict, Level: rec.Decision.Level, Approval: rec.Decision.Approval,
			Code: observe.CodeName(rec.Code), Reason: rec.Reason, Failure: rec.Failure, Outcome: rec.Outcome.String(), Replayed: rec.Replayed, Started: rec.Started, Took: rec.Ended,
		}, t.audited)
	case t.audited:
		h.audit.Release()
	}
}
