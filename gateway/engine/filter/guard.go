package filter

import (
	"github.com/capgate/capgate/gateway/filter"
	"github.com/capgate/capgate/gateway/localgrpc"
)

// Guard makes the guard of engines serve calls of guarded methods. The guard continues them at the picked engine.
type Guard struct{ server *localgrpc.Server }

// NewGuard returns a Guard.
func NewGuard(server *localgrpc.Server) Guard { return Guard{server} }

// Admit implements filter.Filter.
func (f Guard) Admit(c *filter.Call, _ *filter.Stateless) filter.Step {
	if !method(c).Guarded {
		return filter.Continue
	}
	return c.ServeBy(f.server, nil)
}

// Done implements filter.Filter.
func (Guard) Done(*filter.Call, *filter.Stateless, *filter.Result) {}
