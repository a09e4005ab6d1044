package gateway

import (
	"github.com/capgate/capgate/internal/call"
	"github.com/capgate/capgate/internal/telemetry/tracing"
	"github.com/capgate/capgate/router"
)

// pickState is what is remembered of a call's backend.
type pickState struct {
	claim     router.Claim      // on transit.target
	waiter    *router.Waiter    // for a place at a backend of a limited fleet
	admission *router.Admission // to that place; nil: it is not there
	assigned  bool              // the call came back from the translator: target is where it goes
	suited    *router.Backend   // where it goes, as it was sent to one that speaks what it cannot be translated to
	moved     bool              // it was sent elsewhere for that
	met       bool              // the call has waited until it was known which dialect the backend speaks
}

// pick chooses the backend of an attempt, and takes a place there.
type pick struct{ h *handler }

// Admit implements filter.
func (f pick) Admit(t *transit, s *pickState) Step {
	switch {
	case s.admission != nil:
		a := s.admission
		s.admission, s.waiter = nil, nil
		return f.entered(t, s, a)
	case s.assigned:
		s.assigned = false
		return Continue
	case t.fleet.Limited():
		return f.enter(t, s)
	}
	return t.admitUnless(f.route(t, s))
}

// route chooses a backend of a fleet that is not limited.
func (pick) route(t *transit, s *pickState) (refusal *call.Refusal) {
	switch place := t.affinity.place.Backend; {
	case s.suited != nil:
		t.target, s.claim = s.suited, t.fleet.Claim(s.suited, true)
		s.suited = nil
	case place != nil:
		s.claim = t.fleet.Claim(place, t.target != nil)
		t.target = place
	default:
		t.target, s.claim, refusal = t.fleet.Route(t.target)
	}
	return refusal
}

// enter is route for a limited fleet: the call may have to wait for a place. Its deadline
// counts meanwhile.
func (f pick) enter(t *transit, s *pickState) Step {
	to := t.affinity.place.Backend
	if s.suited != nil {
		to, s.suited = s.suited, nil
	}
	entrant := router.Entrant{Tenant: t.call.Tenant, Backend: to, Tried: t.target}
	waiter, a := t.fleet.Enter(entrant, func() func(router.Admission) bool {
		p := f.h.driver.park(t, tracing.ForPlace)
		return func(a router.Admission) bool { return p.Resume(func(t *transit) { t.pick.admission = &a }) }
	})
	if s.waiter = waiter; waiter != nil {
		return Wait
	}
	return f.entered(t, s, &a)
}

// entered goes on with a call that has a place, or gets none.
func (pick) entered(t *transit, s *pickState, a *router.Admission) Step {
	if a.Refusal != nil {
		return t.reject(a.Refusal)
	}
	t.target, s.claim = a.Backend, a.Claim
	return Continue
}

// Done implements filter.
func (pick) Done(t *transit, s *pickState, r *result) {
	s.waiter.Leave()
	switch {
	case r.unsent != nil:
		t.done(t.unsent(r.unsent))
		t.missed(r.unsent)
	case r.Final:
		t.done(t.learned(r.Result))
	default:
		t.done(router.Outcome{}) // another backend suits the call better
	}
}

// done gives up the call's claim on its backend, if it has one.
func (t *transit) done(o router.Outcome) {
	t.pick.claim.Done(o)
	t.pick.claim = router.Claim{}
}

// warm lets a call wait until it is known which dialect its backend speaks.
type warm struct{ h *handler }

// Admit implements filter.
func (f warm) Admit(t *transit, s *pickState) Step {
	if s.met || !t.target.Stranger() {
		s.met = false
		return Continue
	}
	waits := t.target.Meet(func() func() {
		p := f.h.driver.park(t, tracing.ForBackend)
		return func() { p.Resume(func(t *transit) { t.pick.met = true }) }
	})
	if waits {
		return Wait
	}
	return Continue
}

// Done implements filter.
func (warm) Done(*transit, *pickState, *result) {}
