package affinity

import (
	"context"
	"time"

	"github.com/capgate/capgate/internal/call"
	"github.com/capgate/capgate/router"
)

// step is what to do about a session whose pin does not hold.
type step struct {
	to   Pin
	from *Pin // that to replaces; nil: bind
	lost bool // the call that makes the step is told SESSION_LOST; else it is if another gateway used from
	stay bool // nobody is there, and nothing is to be done about it
}

// next is the step that follows a pin; p is nil where there is none.
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
		return step{to: from} // stale, or not noted yet
	}
	to := Pin{home(q, holder, q.Fleet.Backend(from.Addr)), from.Moves + 1}
	return step{to: to, from: &from, lost: p.used.Load()}
}

// loses says whether the step leaves a backend that had the session.
func (st *step) loses() bool { return !st.stay && st.from != nil && st.from.Addr != "" }

// home is the address of the backend where a session shall begin: where the artifact
// is that its call names, if that may be. "" if nobody is there.
func home(q *Query, holder, but *router.Backend) string {
	if holder != nil && holder != but && suits(q, holder) {
		return holder.Addr
	}
	if b := q.Fleet.Home(q.Tenant, q.Session, but); b != nil {
		return b.Addr
	}
	return ""
}

// decide makes the next step without the store, which is told later. The caller holds mu.
func (k *Keeper) decide(q *Query, p *Pinned, holder *router.Backend) Answer {
	own := q.Own()
	q = &own
	st := p.next(q, holder)
	if st.to.Addr == "" && p == nil {
		return Answer{Refusal: q.Fleet.Homeless(q.Tenant, q.Session)}
	}
	// Other gateways may have used a pin that the store knows. Only the store could say.
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

// settled is what the store has led to.
type settled struct {
	pin   Pin
	fresh bool // no call has been there
	lost  bool // by this very question: its call is to be told
	alien bool // its backend is none that this gateway knows, yet
}

// joining is how old a pin must be before a backend that is not configured here counts
// as dead: the others may have learned of it first.
const joining = 30 * time.Second

// maxSteps bounds how often pins of dead backends are found one after the other.
const maxSteps = 3

// consult makes the step, and those that follow from what the store says.
// p is what memory has; it may be nil.
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

// usedBy says whether a pin that the store has was used. Of its own uses a gateway knows better than the store, as
// long as it has the pin in memory.
func (p *Pinned) usedBy(b Bound) bool {
	own := p == nil || p.pin != b.Pin || p.used.Load()
	return b.Users == OtherGateways || b.Users == ThisGateway && own
}

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

// settle puts into memory what the store has led to, and answers the call that asked.
// The caller holds mu.
func (k *Keeper) settle(q *Query, s settled, holder *router.Backend) Answer {
	if s.alien {
		return Answer{Refusal: &call.Refusal{
			Kind: call.Unavailable, Reason: "SESSION_BACKEND_UNKNOWN", RetryAfter: time.Second,
			Message:  "this session of capability " + q.Fleet.Capability + " is at a backend that this gateway does not know yet",
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
