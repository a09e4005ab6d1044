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

// State is what is remembered for the audit log.
type State struct {
	Reserved bool // there is a place for the call's record, which the access log uses or gives back
}

// Filter sees to it that there is a place for the record of a call that goes on.
type Filter struct{ log Log }

// New returns a Filter. A nil log records nothing.
func New(log Log) Filter { return Filter{log} }

// Admit implements filter.Filter.
func (f Filter) Admit(c *filter.Call, s *State) filter.Step {
	if f.log == nil {
		return filter.Continue
	}
	if s.Reserved = f.log.Reserve(); !s.Reserved {
		return c.Reject(rejectedUnaudited)
	}
	return filter.Continue
}

// Done implements filter.Filter.
func (Filter) Done(*filter.Call, *State, *filter.Result) {}

var rejectedUnaudited = &call.Refusal{Kind: call.Unavailable, Reason: "AUDIT_UNAVAILABLE",
	Message: "the call cannot be recorded, and may not be made without that; try again later"}
