package gateway

import (
	"github.com/capgate/capgate/gateway/relay"
	"github.com/capgate/capgate/internal/observe/tracing"
	"github.com/capgate/capgate/router"
)

// enter is route for a limited fleet: the call may have to wait for a place. Its deadline
// counts meanwhile.
func (h *handler) enter(s *relay.Stream, t *transit) {
	to := t.place.Backend
	if t.suited != nil {
		to, t.suited = t.suited, nil
	}
	waiter, a := t.fleet.Enter(router.Entrant{Tenant: t.call.Tenant, Backend: to, Tried: t.target}, func() func(router.Admission) bool {
		parked := s.Park()
		t.span.Wait(tracing.ForPlace)
		return func(a router.Admission) bool {
			return parked.Resume(func(s *relay.Stream) {
				t := transitOf(s)
				t.span.GoOn(tracing.ForPlace)
				h.entered(s, t, a)
			})
		}
	})
	if t.waiter = waiter; waiter == nil {
		h.entered(s, t, a)
	}
}

// entered goes on with a call that has a place, or gets none.
func (h *handler) entered(s *relay.Stream, t *transit, a router.Admission) {
	t.waiter = nil
	if a.Refusal == nil {
		t.target, t.claim = a.Backend, a.Claim
	}
	h.routed(s, t, a.Refusal)
}
