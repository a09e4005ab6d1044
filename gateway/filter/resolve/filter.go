package resolve

import (
	"github.com/capgate/capgate/gateway/filter"
	"github.com/capgate/capgate/internal/call"
	"github.com/capgate/capgate/router"
)

// Tables has the table of fleets in force, as *router.Router does.
type Tables interface {
	Table() *router.Table
}

// Filter finds the fleet that a call names, if it is there for the caller.
type Filter struct{ tables Tables }

// New returns a Filter.
func New(t Tables) Filter { return Filter{t} }

// Check is the filter, which has no state.
func (f Filter) Check(c *filter.Call) (refusal *call.Refusal) {
	var capability string
	if c.Peeked != nil {
		capability = c.Peeked.Capability
	}
	c.Fleet, refusal = f.tables.Table().Resolve(c.RoutingKey(capability), c.Principal.Settings)
	if refusal == nil {
		c.Info.Capability = c.Fleet.Capability
	}
	return refusal
}
