package affinity

import (
	"sync/atomic"
	"time"

	"github.com/capgate/capgate/router"
)

// Pinned is a session in memory with its pin. Resolver.mu guards all fields but used.
type Pinned struct {
	session Session
	pin     Pin
	fleet   *router.Fleet   // of the last call
	backend *router.Backend // of the pin; nil if the fleet no longer has it
	life    uint32          // the backend's incarnation when the pin was made
	told    time.Time       // time of the store's last confirmation; zero: never
	queued  bool            // for renewal
	unnoted bool            // the store has not registered this gateway as a user yet: a call has to query it first
	used    atomic.Bool     // a call may have reached the backend
}

// Used records that a call of the session may have reached its backend, and left state there.
func (p *Pinned) Used() {
	if p != nil && !p.used.Load() {
		p.used.Store(true)
	}
}

// newPinned returns a Pinned for pin. fresh says that no call has used the pin, as far as is known.
func newPinned(q *Query, pin Pin, fresh bool) *Pinned {
	p := &Pinned{session: q.session(), pin: pin, fleet: q.Fleet}
	if p.backend = q.Fleet.Backend(pin.Addr); p.backend != nil {
		p.life = p.backend.Life()
	}
	p.used.Store(!fresh)
	return p
}

// standing is the validity of a pin.
type standing uint8

const (
	holds    standing = iota
	stale             // valid at the store's last confirmation, which is too old
	homeless          // the session has no backend
	broken            // its backend is dead, with the session's state
)

// standing returns the validity of a pin for a call. It is never stale while the store cannot answer.
func (p *Pinned) standing(q *Query, now time.Time, askable bool) standing {
	b, s := judge(q, p.pin)
	if s != holds {
		return s
	}
	if p.backend != b { // the fleet was reconfigured
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

// judge reports whether a session can use a pin.
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

// suits reports whether the reservations of sessions allow a call at a backend.
func suits(q *Query, b *router.Backend) bool {
	if q.Fleet.Reserved(q.Tenant, q.Session) {
		return b.Session == q.Session && b.Tenant == q.Tenant
	}
	return b.Session == ""
}

// due reports whether the store should confirm a pin again, to extend its life or to register this
// gateway.
func (p *Pinned) due(now time.Time) bool {
	return !p.queued && !p.told.IsZero() && (p.unnoted || now.Sub(p.told) > p.fleet.Affinity().SessionTTL/4)
}
