package warm

import (
	"github.com/capgate/capgate/gateway/filter"
	"github.com/capgate/capgate/internal/telemetry/tracing"
)

// State is the state of a call that waits for its backend.
type State struct {
	waited bool
}

// Filter makes a call wait until the dialect of its backend is known.
type Filter struct{}

// Admit implements filter.Filter.
func (Filter) Admit(c *filter.Call, s *State) filter.Step {
	if s.waited || !c.Endpoint.Warming() {
		s.waited = false
		return filter.Continue
	}
	waits := c.Endpoint.Await(func() func() {
		p := c.Park(tracing.ForBackend)
		return func() { p.Resume(func() { s.waited = true }) }
	})
	if waits {
		return filter.Wait
	}
	return filter.Continue
}

// Done implements filter.Filter.
func (Filter) Done(*filter.Call, *State, *filter.Result) {}
