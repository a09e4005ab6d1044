package affinity

import (
	"sync/atomic"
	"time"

	"github.com/capgate/capgate/router"
)

// Pinned is a session in memory with its pin. Resolver.mu guards all fields but used.
type Pinned struct {
	session     Session
	pin         Pin
	fleet       *router.Fleet   // of the last call
	backend     *router.Backend // of the pin; nil if the fleet no longer has it
	incarnation uint32          // the backend's incarnation when the pin was made
	confirmedAt time.Time       // time of the store's last confirmation; zero: never
	renewing    bool            // for renewal
	// the store has not registered this gateway as a user yet: a call has to query it first
	unregistered bool
	used         atomic.Bool // a call may have reached the backend
}

// MarkUsed records that a call of the session may have reached its backend, and left state there.
func (p *Pinned) MarkUsed() {
	if p != nil && !p.used.Load() {
		p.used.Store(true)
	}
}

// newPinned returns a Pinned for pin. fresh says that no call has used the pin, as far as is known.
func newPinned(q *Query, pin Pin, unused bool) *Pinned {
	p := &Pinned{session: q.session(), pin: pin, fleet: q.Fleet}
	p.setBackend(q.Fleet.Backend(pin.Addr))
	p.used.Store(!unused)
	return p
}

// validity is the validity of a pin.
type validity uint8

const (
	valid      validity = iota
	stale               // valid at the store's last confirmation, which is too old
	unassigned          // the session has no backend
	lost                // its backend is dead, with the session's state
)

// validity returns the validity of a pin for a call. It is never stale while the store cannot answer.
func (p *Pinned) validity(q *Query, now time.Time, askable bool) validity {
	b, s := checkPin(q, p.pin)
	if s != valid {
		return s
	}
	if p.backend != b { // the fleet was reconfigured
		p.setBackend(b)
	}
	p.fleet = q.Fleet
	switch {
	case p.forgotten(q, b):
		return lost
	case askable && !p.confirmedAt.IsZero() &&
		(p.unregistered || now.Sub(p.confirmedAt) > q.Fleet.Affinity().SessionTTL/2):
		return stale
	}
	return valid
}

// setBackend sets the backend of a pin; nil if the fleet has no such backend.
func (p *Pinned) setBackend(b *router.Backend) {
	if p.backend = b; b != nil {
		p.incarnation = b.Incarnation()
	}
}

// forgotten reports whether the pin's backend has gone since the pin was made, and with it the session's state, or
// cannot be reached and has none.
func (p *Pinned) forgotten(q *Query, b *router.Backend) bool {
	if q.durable() {
		return false
	}
	return b.Incarnation() != p.incarnation || b == q.Tried && (b.IsGone() || !p.used.Load())
}

// durable reports whether the fleet's backends keep sessions while they are away.
func (q *Query) durable() bool { return q.Fleet.Affinity().Durable }

// checkPin reports whether a session can use a pin. The backend is nil for a durable session whose fleet has no
// backend at the moment.
func checkPin(q *Query, pin Pin) (*router.Backend, validity) {
	if pin.Addr == "" {
		return nil, unassigned
	}
	b := q.Fleet.Backend(pin.Addr)
	switch {
	case b == nil && q.durable() && len(q.Fleet.Backends) == 0:
		return nil, valid
	case b == nil, !eligible(q, b), !b.Alive() && !q.durable():
		return nil, lost
	}
	return b, valid
}

// eligible reports whether the reservations of sessions allow a call at a backend.
func eligible(q *Query, b *router.Backend) bool {
	if q.Fleet.Reserved(q.Tenant, q.Session) {
		return b.Session == q.Session && b.Tenant == q.Tenant
	}
	return b.Session == ""
}

// renewalDue reports whether the store should confirm a pin again, to extend its life or to register this
// gateway.
func (p *Pinned) renewalDue(now time.Time) bool {
	return !p.renewing && !p.confirmedAt.IsZero() &&
		(p.unregistered || now.Sub(p.confirmedAt) > p.fleet.Affinity().SessionTTL/4)
}
