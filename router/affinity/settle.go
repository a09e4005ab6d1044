package affinity

import (
	"context"
	"time"

	"github.com/capgate/capgate/internal/call"
	"github.com/capgate/capgate/router"
)

// step is the transition of a session whose pin is not valid.
type step struct {
	to   Pin
	from *Pin // the pin that to replaces; nil: bind
	// lost says that the call gets SESSION_LOST. Otherwise it does if another gateway has used from.
	lost bool
	stay bool // no backend is available, and nothing changes
}

// next returns the transition from a pin; p is nil where there is none.
func (p *Pinned) next(q *Query, holder *router.Backend) step {
	if p == nil {
		return step{to: Pin{Addr: home(q, holder, q.Tried)}}
	}
	_, s := judge(q, p.pin)
	from := p.pin
	switch {
	case s == homeless:
		to := Pin{home(q, holder, q.Tried), from.Moves + 1}
		return step{to: to, from: &from, stay: to.Addr == ""}
	case s == holds && p.backend != nil && p.life == p.backend.Life() && (p.backend != q.Tried || !p.backend.IsGone()):
		return step{to: from} // stale, or not registered yet
	}
	to := Pin{home(q, holder, q.Fleet.Backend(from.Addr)), from.Moves + 1}
	return step{to: to, from: &from, lost: p.used.Load()}
}

// loses reports whether the transition leaves a backend that had the session.
func (st *step) loses() bool { return !st.stay && st.from != nil && st.from.Addr != "" }

// home returns the address of a new session's backend: that of the call's artifact if possible, or
// "" if no backend is available.
func home(q *Query, holder, but *router.Backend) string {
	if holder != nil && holder != but && suits(q, holder) {
		return holder.Addr
	}
	if b := q.Fleet.Home(q.Tenant, q.Session, but); b != nil {
		return b.Addr
	}
	return ""
}

// decide applies the next transition without the store, which is updated later. The caller holds mu.
func (k *Keeper) decide(q *Query, p *Pinned, holder *router.Backend) Answer {
	own := q.Own()
	q = &own
	st := p.next(q, holder)
	if st.to.Addr == "" && p == nil {
		return Answer{Refusal: q.Fleet.Homeless(q.Tenant, q.Session)}
	}
	// Other gateways may have used a pin that the store has. Only the store could tell.
	st.lost = st.lost || p != nil && !p.told.IsZero() && st.loses()
	k.local.Add(1)
	fresh := newPinned(q, st.to, p == nil || !p.used.Load() || st.lost)
	fresh.unnoted = k.store != nil
	k.sessions.Add(fresh.session.Tenant, fresh.session, fresh)
	if k.store != nil && !st.stay {
		k.queue(fresh)
	}
	if st.lost {
		return k.lostTo(q)
	}
	return k.answer(q, fresh, holder)
}

// settled is the outcome of a query to the store.
type settled struct {
	pin   Pin
	fresh bool // no call has used the pin
	lost  bool // the query moved the pin: its call gets SESSION_LOST
	alien bool // this gateway does not know the backend yet
}

// joining is the least age of a pin at which an unknown backend counts as dead. Until then it may be
// configured elsewhere but not here yet.
const joining = 30 * time.Second

// maxSteps bounds the transitions of one query, each from another dead backend.
const maxSteps = 3

// consult applies a transition in the store, and those that follow from its answers. p is the pin in
// memory, which may be nil.
func (k *Keeper) consult(ctx context.Context, q *Query, p *Pinned, st step, holder *router.Backend) (settled, error) {
	for n := 1; ; n++ {
		if st.stay || st.to.Addr == "" && st.from == nil {
			return settled{pin: st.to, fresh: st.from == nil}, nil
		}
		bound, err := k.ask(ctx, Binding{q.session(), st.to, q.Fleet.Affinity().SessionTTL, st.lost}, st.from)
		if err != nil {
			return settled{}, err
		}
		if bound.New && bound.Pin == st.to {
			return settled{pin: st.to, fresh: true, lost: st.lost || bound.Users == OtherGateways && st.loses()}, nil
		}
		found := &Pinned{pin: bound.Pin}
		found.used.Store(p.usedBy(bound))
		b, s := judge(q, bound.Pin)
		switch {
		case s == holds && !b.IsGone() && !b.GoneWithin(bound.Age), n == maxSteps:
			return settled{pin: bound.Pin, fresh: !found.used.Load()}, nil
		case s == broken && q.Fleet.Backend(bound.Pin.Addr) == nil && bound.Age < joining:
			return settled{alien: true}, nil
		}
		st = found.next(q, holder)
	}
}

// usedBy reports whether a stored pin was used. A gateway with the pin in memory knows its own uses
// better than the store.
func (p *Pinned) usedBy(b Bound) bool {
	own := p == nil || p.pin != b.Pin || p.used.Load()
	return b.Users == OtherGateways || b.Users == ThisGateway && own
}

// ask sends one binding or move to the store.
func (k *Keeper) ask(ctx context.Context, b Binding, from *Pin) (Bound, error) {
	k.lookups.Add(1)
	if from != nil {
		return k.store.Move(ctx, b, *from)
	}
	all, err := k.store.Bind(ctx, []Binding{b})
	if err != nil {
		return Bound{}, err
	}
	return all[0], nil
}

// settle caches the outcome of a query, and answers its call. The caller holds mu.
func (k *Keeper) settle(q *Query, s settled, holder *router.Backend) Answer {
	if s.alien {
		return Answer{Refusal: &call.Refusal{
			Kind: call.Unavailable, Reason: "SESSION_BACKEND_UNKNOWN", RetryAfter: time.Second,
			Message: "this session of capability " + q.Fleet.Capability +
				" is at a backend that this gateway does not know yet; retry the call",
			Metadata: map[string]string{"capability": q.Fleet.Capability},
		}}
	}
	p := newPinned(q, s.pin, s.fresh)
	if s.pin.Addr != "" || s.lost || s.pin.Moves > 0 {
		p.told, p.unnoted = time.Now(), s.lost
		k.sessions.Add(p.session.Tenant, p.session, p)
	}
	if s.lost {
		return k.lostTo(q)
	}
	return k.answer(q, p, holder)
}
