package resolve

import (
	"github.com/capgate/capgate/gateway/dialect"
	"github.com/capgate/capgate/gateway/filter"
	"github.com/capgate/capgate/internal/call"
	"github.com/capgate/capgate/router"
)

// Tables returns the current table of fleets. *router.Router implements it.
type Tables interface {
	Table() *router.Table
}

// Filter resolves the fleet of a call, if it is visible to the caller.
type Filter struct{ tables Tables }

// New returns a Filter.
func New(t Tables) Filter { return Filter{t} }

// Check resolves the fleet of a call.
func (f Filter) Check(c *filter.Call) *call.Refusal { return f.check(c, false) }

// CheckOther is Check for services that are not capabilities. A service that no fleet has is unknown.
func (f Filter) CheckOther(c *filter.Call) *call.Refusal {
	return f.check(c, !dialect.Owns(c.Info.Path))
}

func (f Filter) check(c *filter.Call, foreign bool) (refusal *call.Refusal) {
	var capability string
	if c.Peeked != nil {
		capability = c.Peeked.Capability
	}
	key := c.RoutingKey(capability)
	key.Foreign = foreign
	c.Fleet, refusal = f.tables.Table().Resolve(key, c.Principal.Settings)
	if refusal == nil {
		c.Info.Capability = c.Fleet.Capability
	}
	return refusal
}
