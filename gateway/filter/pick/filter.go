package pick

import (
	"errors"
	"syscall"

	"github.com/capgate/capgate/gateway/filter"
	"github.com/capgate/capgate/internal/call"
	"github.com/capgate/capgate/internal/telemetry/tracing"
	"github.com/capgate/capgate/router"
)

// State is the state of a call at its backend.
type State struct {
	Permit router.Permit // for Call.Endpoint
}

// wait is the wait of a call for a permit.
type wait struct {
	waiter *router.Waiter
	result *router.PermitResult // nil until it is known
}

// Release returns the permit, with the outcome for the backend.
func (s *State) Release(o router.Outcome) {
	s.Permit.Done(o)
	s.Permit = router.Permit{}
}

// Filter picks the backend of an attempt and takes a permit for it in one step.
type Filter struct{}

// Admit implements filter.Filter.
func (f Filter) Admit(c *filter.Call, s *State) filter.Step {
	if w, ok := c.Waits.(*wait); ok {
		c.Waits = nil
		return f.picked(c, s, w.result)
	}
	if c.Fleet.Limited() {
		return f.acquire(c, s)
	}
	return c.ContinueUnless(f.route(c, s))
}

// route picks a backend of a fleet without a limit.
func (Filter) route(c *filter.Call, s *State) (refusal *call.Refusal) {
	switch pinned := c.Pin.Backend; {
	case c.Route.Directed != nil:
		c.Endpoint, s.Permit = c.Route.Directed, c.Fleet.Acquire(c.Route.Directed, true)
		c.Route.Directed = nil
	case pinned != nil:
		s.Permit = c.Fleet.Acquire(pinned, c.Endpoint != nil)
		c.Endpoint = pinned
	default:
		c.Endpoint, s.Permit, refusal = c.Fleet.Route(c.Endpoint)
	}
	return refusal
}

// acquire is route for a fleet with a limit: the call may wait for a permit, within its deadline.
func (f Filter) acquire(c *filter.Call, s *State) filter.Step {
	to := c.Pin.Backend
	if c.Route.Directed != nil {
		to, c.Route.Directed = c.Route.Directed, nil
	}
	request := router.PermitRequest{Tenant: c.Info.Tenant, Backend: to, Tried: c.Endpoint,
		Left: c.Stream.Left(), Whole: c.Info.Method == call.Invoke}
	waiter, r := c.Fleet.AcquirePermit(request, func() func(router.PermitResult) bool {
		p, w := c.Park(tracing.ForCapacity), &wait{}
		c.Waits = w
		return func(r router.PermitResult) bool {
			p.ResumeOr(func() { w.result = &r }, func() { r.Claim.Done(router.Outcome{}) })
			return true // if the call has ended, the permit is returned here
		}
	})
	if waiter != nil {
		c.Waits.(*wait).waiter = waiter
		return filter.Wait
	}
	return f.picked(c, s, &r)
}

// picked continues a call with the permit or refusal of its wait.
func (Filter) picked(c *filter.Call, s *State, r *router.PermitResult) filter.Step {
	if r.Refusal != nil {
		return c.Reject(r.Refusal)
	}
	c.Endpoint, s.Permit = r.Backend, r.Claim
	return filter.Continue
}

// Done implements filter.Filter.
func (Filter) Done(c *filter.Call, s *State, r *filter.Result) {
	if w, ok := c.Waits.(*wait); ok {
		w.waiter.Cancel()
		c.Waits = nil
	}
	switch {
	case r.Unsent != nil:
		s.Release(outcomeOfUnsent(c, r.Unsent))
		if errors.Is(r.Unsent, syscall.ECONNREFUSED) {
			c.Endpoint.MarkGone() // the backend has lost the state of its sessions
		}
	case r.Final:
		s.Release(outcomeOf(c, r.Result))
	default:
		s.Release(router.Outcome{}) // another backend fits the call better
	}
}
