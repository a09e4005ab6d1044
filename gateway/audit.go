package gateway

import "github.com/capgate/capgate/internal/call"

// auditState is what is remembered for the audit log.
type auditState struct {
	admitted bool // there is a place for the call's record
}

// admitToAudit sees to it that there is a place for the record of a call that goes on.
func (h *handler) admitToAudit(t *callState) *call.Refusal {
	if h.audit == nil {
		return nil
	}
	if t.audit.admitted = h.audit.Reserve(); !t.audit.admitted {
		return refusedUnaudited
	}
	return nil
}

var refusedUnaudited = &call.Refusal{Kind: call.Unavailable, Reason: "AUDIT_UNAVAILABLE",
	Message: "the call cannot be recorded, and may not be made without that; try again later"}
