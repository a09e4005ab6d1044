package affinity

import (
	"sync/atomic"
	"time"

	"github.com/capgate/capgate/router"
)

// Pinned is a session in memory, with one pin. All but used is guarded by Keeper.mu.
type Pinned struct {
	session Session
	pin     Pin
	fleet   *router.Fleet   // of the last call
	backend *router.Backend // of the pin; nil if the fleet has none like it
	life    uint32          // the backend's, when the pin was made
	told    time.Time       // when the store last confirmed the pin; zero: never
	queued  bool            // to be confirmed
	unnoted bool            // the store has not noted yet that this gateway uses the pin: it is asked before a call does
	used    atomic.Bool     // a call may have come to the backend
}

// Used tells that a call of the session may have come to its backend: state may be there.
func (p *Pinned) Used() {
	if p != nil && !p.used.Load() {
		p.used.Store(true)
	}
}

// newPinned is a pin as of now. fresh says that no call has been there, as far as this gateway knows.
func newPinned(q *Query, pin Pin, fresh bool) *Pinned {
	p := &Pinned{session: q.session(), pin: pin, fleet: q.Fleet}
	if p.backend = q.Fleet.Backend(pin.Addr); p.backend != nil {
		p.life = p.backend.Life()
	}
	p.used.Store(!fresh)
	return p
}

// standing is what a pin is worth.
type standing uint8

const (
	holds    standing = iota
	stale             // it held when it was last heard of, which is too long ago
	homeless          // it says that the session is nowhere
	broken            // its backend has died, with what it held of the session
)

// standing judges a pin for a call. It is never stale where the store cannot say
// more.
func (p *Pinned) standing(q *Query, now time.Time, askable bool) standing {
	b, s := judge(q, p.pin)
	if s != holds {
		return s
	}
	if p.backend != b { // the fleet was configured anew
		p.backend, p.life = b, b.Life()
	}
	p.fleet = q.Fleet
	switch {
	case b.Life() != p.life, b == q.Tried && b.IsGone():
		return broken
	case askable && !p.told.IsZero() && (p.unnoted || now.Sub(p.told) > q.Fleet.Affinity().SessionTTL/2):
		return stale
	}
	return holds
}

// judge says whether a session can be where a pin says.
func judge(q *Query, pin Pin) (*router.Backend, standing) {
	if pin.Addr == "" {
		return nil, homeless
	}
	b := q.Fleet.Backend(pin.Addr)
	if b == nil || !b.Alive() || !suits(q, b) {
		return nil, broken
	}
	return b, holds
}

// suits says whether a call may go to a backend, as far as some are for one session.
func suits(q *Query, b *router.Backend) bool {
	if q.Fleet.Reserved(q.Tenant, q.Session) {
		return b.Session == q.Session && b.Tenant == q.Tenant
	}
	return b.Session == ""
}

// due says that the store should hear of a pin again, lest it forget it, or as this gateway uses it.
func (p *Pinned) due(now time.Time) bool {
	return !p.queued && !p.told.IsZero() && (p.unnoted || now.Sub(p.told) > p.fleet.Affinity().SessionTTL/4)
}
