package router

import (
	"sync/atomic"
	"time"

	"github.com/capgate/capgate/internal/call"
)

// Backend is one server of a fleet. It lives as long as some table names it, over
// changes of the configuration.
type Backend struct {
	// ID is a number that no other backend of this and all former tables has.
	ID         int
	Addr       string // host:port
	Capability string // the fleet's
	Session    string // the only session whose calls come here; "": any
	Tenant     string // whose Session it is
	Host       string // what its certificate must be for; "": as the fleet says, or the host of Addr
	// Attached is what the gateway keeps with the backend: its connections. It is set
	// before a table with the backend is in force, and then never.
	Attached any

	hash       uint64 // of Addr
	configured call.Dialect
	detected   atomic.Uint32 // call.Dialect that health found
	stranger   atomic.Pointer[stranger]
	// drainedSince is in nanoseconds of Unix time; 0: it is not drained.
	drainedSince atomic.Int64
	standing     *standing // of the fleet
	load         *load
	turnout      turnout
}

// turnout is whether calls come to a backend, and for how long not.
type turnout struct {
	failures     atomic.Int32 // in a row, of calls that it had
	missed       atomic.Int32 // connections in a row that could not be made
	returns      atomic.Int32 // ejections since its last success
	ejectedUntil atomic.Int64 // time of the clock; changed with standing.mu held
	rampUntil    atomic.Int64 // time of the clock at which it has its whole share; changed with standing.mu held

	gone  atomic.Bool   // nobody listens there, as far as is known
	dead  atomic.Bool   // by probes; changed with standing.mu held
	life  atomic.Uint32 // how often it was found gone
	ended atomic.Int64  // when last, in ns since 1970; 0: never

	ejectedFor Class         // guarded by standing.mu
	ejectedAt  time.Duration // of the clock; guarded by standing.mu
	out        bool          // calls did not come here; guarded by standing.mu
}

// load is what every call touches of a backend. Those of a fleet lie close together,
// since calls compare them. Two share a cache line: with many capabilities it counts how
// much memory calls go over, and with few of them calls read each other's lines anyway.
type load struct {
	inFlight atomic.Int32
	trouble  atomic.Uint32 // 0: turnout's counters are 0
	latency  latency
	routed   atomic.Int64 // calls so far, less second tries
	backend  *Backend
}

// newBackend makes a backend that owns load.
func newBackend(id int, f *FleetConfig, c BackendConfig, s *standing, load *load) *Backend {
	b := &Backend{
		ID: id, Addr: c.Addr, Capability: f.Capability, Session: c.Session, Tenant: c.Tenant, Host: c.Host,
		hash: hashOf(c.Addr), configured: c.Dialect, standing: s, load: load,
	}
	load.backend = b
	return b
}

// Dialect is the shape of the capability protocol that the backend speaks: the
// configured one, else the one that health found, else Auto.
func (b *Backend) Dialect() call.Dialect {
	if b.configured != call.Auto {
		return b.configured
	}
	return call.Dialect(b.detected.Load())
}

// InFlight is the number of calls that were routed here and are not done.
func (b *Backend) InFlight() int64 { return int64(b.load.inFlight.Load()) }

// Routed is the number of calls that were routed here so far, less second tries.
func (b *Backend) Routed() int64 { return b.load.routed.Load() }

// Claim is a call's place among those in flight at a backend. The zero Claim is none.
type Claim struct {
	load  *load
	clock *clock
	place *pool // of a limited fleet
}

// Done gives the place up, and tells what the call learned of the backend. It must be
// called once.
func (c Claim) Done(o Outcome) {
	l := c.load
	if l == nil {
		return
	}
	l.inFlight.Add(-1)
	if c.place != nil {
		c.place.release()
	}
	switch o.Class {
	case Neutral:
	case Succeeded:
		if o.Latency > 0 {
			l.latency.observe(c.clock.at(o.At), o.Latency)
		}
		if l.trouble.Load() != 0 {
			l.forgive(c.clock.at(o.At))
		}
	default:
		l.backend.failed(o, c.clock.at(o.At))
	}
}

// forgive ends the counting of failures.
func (l *load) forgive(now time.Duration) {
	l.trouble.Store(0)
	t := &l.backend.turnout
	t.failures.Store(0)
	t.missed.Store(0)
	t.gone.Store(false)
	if t.returns.Load() == 0 {
		return
	}
	// A call that was there before the ejection proves nothing for the time after it.
	if int64(now) < t.ejectedUntil.Load() {
		l.trouble.Store(1)
		return
	}
	t.returns.Store(0)
}

func (b *Backend) failed(o Outcome, now time.Duration) {
	if o.Latency > 0 {
		b.load.latency.peak(now, o.Latency)
	}
	rules := &b.standing.fleet.Load().ejection
	count, limit := &b.turnout.failures, rules.Failures
	switch {
	case o.Class == Unreachable:
		count, limit = &b.turnout.missed, rules.ConnectFailures
	case o.Class == TimedOut && o.Latency < rules.TimeoutLeast:
		return
	}
	n := count.Add(1)
	b.load.trouble.Store(1)
	if limit > 0 && int(n) >= limit {
		b.standing.eject(b, o.Class, now)
	}
}
