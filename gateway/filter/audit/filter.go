package audit

import (
	"github.com/capgate/capgate/gateway/filter"
	"github.com/capgate/capgate/internal/call"
)

// Log reserves records. *audit.Log implements it.
type Log interface {
	// Reserve reserves the record of one call. It returns false if there is no room.
	Reserve() bool
}

// Filter reserves the audit record of a call that continues.
type Filter struct{ log Log }

// New returns a Filter. A nil log records nothing.
func New(log Log) Filter { return Filter{log} }

// Check reserves the call's record, which the access log writes or releases. It rejects the call if there is no room.
func (f Filter) Check(c *filter.Call) *call.Refusal {
	if f.log == nil {
		return nil
	}
	if c.Audited = f.log.Reserve(); !c.Audited {
		return rejectedUnaudited
	}
	return nil
}

var rejectedUnaudited = &call.Refusal{Kind: call.Unavailable, Reason: "AUDIT_UNAVAILABLE",
	Message: "the call cannot be recorded in the audit log, which is required; try again later"}
