package router

import (
	"sync/atomic"
	"time"

	"github.com/capgate/capgate/internal/call"
)

// Backend is one server of a fleet. It exists as long as a table contains it, across configuration
// changes.
type Backend struct {
	// ID is unique among the backends of this and all former tables.
	ID         int
	Addr       string // host:port
	Capability string // the fleet's
	Session    string // the only session that may use it; "": any
	Tenant     string // the tenant of Session
	Host       string // the name in its certificate; "": the fleet's, or the host of Addr
	// Attached is the gateway's data about the backend: its connections. It is set before a table
	// with the backend is in force, and never changes.
	Attached any

	hash       uint64 // of Addr
	configured call.Dialect
	detected   atomic.Uint32 // call.Dialect, detected by health
	stranger   atomic.Pointer[stranger]
	// drainedSince is in ns since 1970; 0: not drained.
	drainedSince atomic.Int64
	standing     *standing // of the fleet
	load         *load
	turnout      turnout
}

// turnout says whether a backend gets calls, and until when it does not.
type turnout struct {
	failures     atomic.Int32 // consecutive, of calls
	missed       atomic.Int32 // consecutive failed connections
	returns      atomic.Int32 // since its last success
	ejectedUntil atomic.Int64 // time of the clock; changed with state.mu held
	rampUntil    atomic.Int64 // end of its slow start, time of the clock; changed with state.mu held

	gone  atomic.Bool   // its port is closed, as far as is known
	dead  atomic.Bool   // according to probes; changed with state.mu held
	life  atomic.Uint32 // number of times that it was found gone
	ended atomic.Int64  // the last time, in ns since 1970; 0: never

	ejectedFor Class         // guarded by state.mu
	ejectedAt  time.Duration // time of the clock; guarded by state.mu
	out        bool          // it got no calls; guarded by state.mu
}

// load is the part of a backend that every call touches. The loads of a fleet are adjacent, since
// calls compare them. Two share a cache line: with many capabilities the touched memory matters, and
// with few of them calls read each other's lines anyway.
type load struct {
	inFlight atomic.Int32
	trouble  atomic.Uint32 // 0: all counters of turnout are 0
	latency  latency
	routed   atomic.Int64 // calls so far, without retries
	backend  *Backend
}

// newBackend returns a backend that owns load.
func newBackend(id int, f *FleetConfig, c BackendConfig, s *standing, load *load) *Backend {
	b := &Backend{
		ID: id, Addr: c.Addr, Capability: f.Capability, Session: c.Session, Tenant: c.Tenant, Host: c.Host,
		hash: hashOf(c.Addr), configured: c.Dialect, standing: s, load: load,
	}
	load.backend = b
	return b
}

// Dialect is the shape of the capability protocol that the backend speaks: the
// configured one, else the detected one, else Auto.
func (b *Backend) Dialect() call.Dialect {
	if b.configured != call.Auto {
		return b.configured
	}
	return call.Dialect(b.detected.Load())
}

// InFlight returns the number of calls that were routed here and have not ended.
func (b *Backend) InFlight() int64 { return int64(b.load.inFlight.Load()) }

// Routed returns the number of calls that were routed here so far, without retries.
func (b *Backend) Routed() int64 { return b.load.routed.Load() }

// Claim is a call's permit at a backend. The zero Claim is none.
type Claim struct {
	load  *load
	clock *clock
	place *pool // of a limited fleet
}

// Done returns the permit, and reports the call's outcome. It must be called once.
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

// forgive resets the counters of failures.
func (l *load) forgive(now time.Duration) {
	l.trouble.Store(0)
	t := &l.backend.turnout
	t.failures.Store(0)
	t.missed.Store(0)
	t.gone.Store(false)
	if t.returns.Load() == 0 {
		return
	}
	// A success of a call from before the ejection is no evidence for the time after it.
	if int64(now) < t.ejectedUntil.Load() {
		l.trouble.Store(1)
		return
	}
	t.returns.Store(0)
}

// failed counts a failure, and ejects the backend when a threshold is reached.
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
