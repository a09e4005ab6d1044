package gateway

import (
	"github.com/capgate/capgate/gateway/filter"
	"github.com/capgate/capgate/internal/call"
	"github.com/capgate/capgate/internal/telemetry/tracing"
	"github.com/capgate/capgate/router"
)

// pickState is what is remembered of a call's backend.
type pickState struct {
	claim     router.Permit        // on Call.Endpoint
	waiter    *router.Waiter       // for a place at a backend of a limited fleet
	admission *router.PermitResult // to that place; nil: it is not there
	met       bool                 // the call has waited until it was known which dialect the backend speaks
}

// pick chooses the backend of an attempt, and takes a place there.
type pick struct{ h *handler }

// Admit implements filter.Filter.
func (f pick) Admit(_ *filter.Call, t *callState) filter.Step {
	s := &t.pick
	switch {
	case s.admission != nil:
		a := s.admission
		s.admission, s.waiter = nil, nil
		return f.entered(t, s, a)
	case t.Attempt.Assigned:
		t.Attempt.Assigned = false
		return filter.Continue
	case t.Fleet.Limited():
		return f.enter(t, s)
	}
	return t.ContinueUnless(f.route(t, s))
}

// route chooses a backend of a fleet that is not limited.
func (pick) route(t *callState, s *pickState) (refusal *call.Refusal) {
	switch place := t.Pin.Backend; {
	case t.Attempt.Directed != nil:
		t.Endpoint, s.claim = t.Attempt.Directed, t.Fleet.Acquire(t.Attempt.Directed, true)
		t.Attempt.Directed = nil
	case place != nil:
		s.claim = t.Fleet.Acquire(place, t.Endpoint != nil)
		t.Endpoint = place
	default:
		t.Endpoint, s.claim, refusal = t.Fleet.Route(t.Endpoint)
	}
	return refusal
}

// enter is route for a limited fleet: the call may have to wait for a place. Its deadline
// counts meanwhile.
func (f pick) enter(t *callState, s *pickState) filter.Step {
	to := t.Pin.Backend
	if t.Attempt.Directed != nil {
		to, t.Attempt.Directed = t.Attempt.Directed, nil
	}
	entrant := router.PermitRequest{Tenant: t.Info.Tenant, Backend: to, Tried: t.Endpoint}
	waiter, a := t.Fleet.AcquirePermit(entrant, func() func(router.PermitResult) bool {
		p := t.Park(tracing.ForCapacity)
		return func(a router.PermitResult) bool {
			p.ResumeOr(func() { s.admission = &a }, func() { a.Claim.Done(router.Outcome{}) })
			return true // the permit is given back here where the call has ended
		}
	})
	if s.waiter = waiter; waiter != nil {
		return filter.Wait
	}
	return f.entered(t, s, &a)
}

// entered goes on with a call that has a place, or gets none.
func (pick) entered(t *callState, s *pickState, a *router.PermitResult) filter.Step {
	if a.Refusal != nil {
		return t.Reject(a.Refusal)
	}
	t.Endpoint, s.claim = a.Backend, a.Claim
	return filter.Continue
}

// Done implements filter.Filter.
func (pick) Done(_ *filter.Call, t *callState, r *filter.Result) {
	t.pick.waiter.Cancel()
	switch {
	case r.Unsent != nil:
		t.done(t.unsent(r.Unsent))
		t.missed(r.Unsent)
	case r.Final:
		t.done(t.learned(r.Result))
	default:
		t.done(router.Outcome{}) // another backend suits the call better
	}
}

// done gives up the call's claim on its backend, if it has one.
func (t *callState) done(o router.Outcome) {
	t.pick.claim.Done(o)
	t.pick.claim = router.Permit{}
}

// warm lets a call wait until it is known which dialect its backend speaks.
type warm struct{ h *handler }

// Admit implements filter.Filter.
func (f warm) Admit(t *filter.Call, s *pickState) filter.Step {
	if s.met || !t.Endpoint.Warming() {
		s.met = false
		return filter.Continue
	}
	waits := t.Endpoint.Await(func() func() {
		p := t.Park(tracing.ForBackend)
		return func() { p.Resume(func() { s.met = true }) }
	})
	if waits {
		return filter.Wait
	}
	return filter.Continue
}

// Done implements filter.Filter.
func (warm) Done(*filter.Call, *pickState, *filter.Result) {}
