package affinity

import (
	"context"
	"time"

	"github.com/capgate/capgate/internal/call"
	"github.com/capgate/capgate/router"
)

// transition is the transition of a session whose pin is not valid.
type transition struct {
	to   Pin
	from *Pin // the pin that to replaces; nil: bind
	// tellLost says that the call gets SESSION_LOST. Otherwise it does if another gateway has used from.
	tellLost bool
	none     bool // no backend is available, and nothing changes
}

// nextTransition returns the transition from a pin; p is nil where there is none.
func (p *Pinned) nextTransition(q *Query, holder *router.Backend) transition {
	if p == nil {
		return transition{to: Pin{Addr: homeAddr(q, holder, q.Tried)}}
	}
	_, s := checkPin(q, p.pin)
	from := p.pin
	switch {
	case s == unassigned:
		to := Pin{homeAddr(q, holder, q.Tried), from.Moves + 1}
		return transition{to: to, from: &from, none: to.Addr == ""}
	case s == valid && (q.durable() || p.backend != nil && !p.forgotten(q, p.backend)):
		return transition{to: from} // stale, or not registered yet
	}
	to := Pin{homeAddr(q, holder, q.Fleet.Backend(from.Addr)), from.Moves + 1}
	return transition{to: to, from: &from, tellLost: p.used.Load()}
}

// losesState reports whether the transition leaves a backend that had the session.
func (st *transition) losesState() bool { return !st.none && st.from != nil && st.from.Addr != "" }

// homeAddr returns the address of a new session's backend: that of the call's artifact if possible, or
// "" if no backend is available.
func homeAddr(q *Query, holder, but *router.Backend) string {
	if holder != nil && holder != but && eligible(q, holder) {
		return holder.Addr
	}
	if b := q.Fleet.Home(q.Tenant, q.Session, but); b != nil {
		return b.Addr
	}
	return ""
}

// decideLocally applies the next transition without the store, which is updated later. The caller holds mu.
func (r *Resolver) decideLocally(q *Query, p *Pinned, holder *router.Backend) Answer {
	owned := q.Clone()
	q = &owned
	st := p.nextTransition(q, holder)
	if st.to.Addr == "" && p == nil {
		return Answer{Refusal: q.Fleet.NoHome(q.Tenant, q.Session)}
	}
	// Other gateways may have used a pin that the store has. Only the store could tell.
	st.tellLost = st.tellLost || p != nil && !p.confirmedAt.IsZero() && st.losesState()
	r.local.Add(1)
	pinned := newPinned(q, st.to, p == nil || !p.used.Load() || st.tellLost)
	pinned.unregistered = r.store != nil
	r.sessions.Add(pinned.session.Tenant, pinned.session, pinned)
	if r.store != nil && !st.none {
		r.enqueue(pinned)
	}
	if st.tellLost {
		return r.sessionLost(q)
	}
	return r.answer(q, pinned, holder)
}

// outcome is the outcome of a query to the store.
type outcome struct {
	pin            Pin
	unused         bool // no call has used the pin
	lost           bool // the query moved the pin: its call gets SESSION_LOST
	unknownBackend bool // this gateway does not know the backend yet
}

// joinGrace is the least age of a pin at which an unknown backend counts as dead. Until then it may be
// configured elsewhere but not here yet.
const joinGrace = 30 * time.Second

// maxTransitions bounds the transitions of one query, each from another dead backend.
const maxTransitions = 3

// queryStore applies a transition in the store, and the transitions that its answers require. p is the pin in
// memory, which may be nil.
func (r *Resolver) queryStore(ctx context.Context, q *Query, p *Pinned, st transition,
	holder *router.Backend) (outcome, error) {
	for n := 1; ; n++ {
		if st.none || st.to.Addr == "" && st.from == nil {
			return outcome{pin: st.to, unused: st.from == nil}, nil
		}
		bound, err := r.bindOrMove(ctx, Binding{q.session(), st.to, q.Fleet.Affinity().SessionTTL, st.tellLost},
			st.from)
		if err != nil {
			return outcome{}, err
		}
		if bound.New && bound.Pin == st.to {
			return outcome{pin: st.to, unused: true, lost: st.tellLost ||
				bound.Users == OtherGateways && st.losesState()}, nil
		}
		found := &Pinned{pin: bound.Pin}
		found.used.Store(p.usedBy(bound))
		b, s := checkPin(q, bound.Pin)
		switch {
		case s == valid && (q.durable() || !b.IsGone() && !b.GoneWithin(bound.Age)), n == maxTransitions:
			return outcome{pin: bound.Pin, unused: !found.used.Load()}, nil
		case s == lost && q.Fleet.Backend(bound.Pin.Addr) == nil && bound.Age < joinGrace:
			return outcome{unknownBackend: true}, nil
		}
		st = found.nextTransition(q, holder)
	}
}

// usedBy reports whether a stored pin was used. The uses that a gateway has
// in memory are newer than those in the store.
func (p *Pinned) usedBy(b BindResult) bool {
	usedHere := p == nil || p.pin != b.Pin || p.used.Load()
	return b.Users == OtherGateways || b.Users == ThisGateway && usedHere
}

// bindOrMove sends one binding or move to the store.
func (r *Resolver) bindOrMove(ctx context.Context, b Binding, from *Pin) (BindResult, error) {
	r.lookups.Add(1)
	if from != nil {
		return r.store.Move(ctx, b, *from)
	}
	all, err := r.store.Bind(ctx, []Binding{b})
	if err != nil {
		return BindResult{}, err
	}
	return all[0], nil
}

// applyOutcome caches the outcome of a query, and answers its call. The caller holds mu.
func (r *Resolver) applyOutcome(q *Query, s outcome, holder *router.Backend) Answer {
	if s.unknownBackend {
		return Answer{Refusal: &call.Refusal{
			Kind: call.Unavailable, Reason: "SESSION_BACKEND_UNKNOWN", RetryAfter: time.Second,
			Message: "this session of capability " + q.Fleet.Capability +
				" is at a backend that this gateway does not know yet; retry the call",
			Metadata: map[string]string{"capability": q.Fleet.Capability},
		}}
	}
	p := newPinned(q, s.pin, s.unused)
	if s.pin.Addr != "" || s.lost || s.pin.Moves > 0 {
		p.confirmedAt, p.unregistered = time.Now(), s.lost
		r.sessions.Add(p.session.Tenant, p.session, p)
	}
	if s.lost {
		return r.sessionLost(q)
	}
	return r.answer(q, p, holder)
}
