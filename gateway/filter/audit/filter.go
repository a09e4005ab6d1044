package audit

import (
	"github.com/capgate/capgate/gateway/filter"
	"github.com/capgate/capgate/internal/call"
)

// Log has places for records, as *audit.Log does.
type Log interface {
	// Reserve keeps a place for the record of one call; false: there is none.
	Reserve() bool
}

// Filter sees to it that there is a place for the record of a call that goes on.
type Filter struct{ log Log }

// New returns a Filter. A nil log records nothing.
func New(log Log) Filter { return Filter{log} }

// Check reserves a place for the call's record, which the access log uses or gives back. It rejects the call where
// there is none.
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
	Message: "the call cannot be recorded, and may not be made without that; try again later"}
