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

	hash         uint64 // of Addr
	configured   call.Dialect
	detected     atomic.Uint32 // call.Dialect, detected by health
	warming      atomic.Pointer[warming]
	drained      atomic.Pointer[Drain] // nil: not drained
	state        *fleetState           // of the fleet
	load         *load
	availability availability
}

// availability returns whether a backend gets calls and, if not, until when.
type availability struct {
	failures        atomic.Int32 // consecutive, of calls
	connectFailures atomic.Int32 // consecutive failed connections
	ejections       atomic.Int32 // since its last success
	ejectedUntil    atomic.Int64 // time of the clock; changed with state.mu held
	rampUntil       atomic.Int64 // end of its slow start, time of the clock; changed with state.mu held

	gone        atomic.Bool   // its port is closed, as far as is known
	dead        atomic.Bool   // according to probes; changed with state.mu held
	incarnation atomic.Uint32 // number of times that it was found gone
	goneAt      atomic.Int64  // the last time, in ns since 1970; 0: never

	ejectedFor Class         // guarded by state.mu
	ejectedAt  time.Duration // time of the clock; guarded by state.mu
	excluded   bool          // it got no calls; guarded by state.mu
}

// load is the part of a backend that every call touches. The loads of a fleet are adjacent, since
// calls compare them. Two share a cache line: with many capabilities the touched memory matters, and
// with few of them calls read each other's lines anyway.
type load struct {
	inFlight atomic.Int32
	failing  atomic.Uint32 // 0: all counters of turnout are 0
	latency  latency
	routed   atomic.Int64 // calls so far, without retries
	backend  *Backend
}

// newBackend returns a backend that owns load.
func newBackend(id int, f *FleetConfig, c BackendConfig, s *fleetState, load *load) *Backend {
	b := &Backend{
		ID: id, Addr: c.Addr, Capability: f.Capability, Session: c.Session, Tenant: c.Tenant, Host: c.Host,
		hash: hashOf(c.Addr), configured: c.Dialect, state: s, load: load,
	}
	load.backend = b
	return b
}

// Dialect returns the dialect of the backend's capability protocol: the configured one, else the
// detected one, else Auto.
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

// Permit is a call's permit at a backend. The zero Claim is none.
type Permit struct {
	load  *load
	pool  *pool     // of a limited fleet
	needs *callTime // of the call's tenant; guarded by the pool's limiter
}

// Done returns the permit, and reports the call's outcome. It must be called once.
func (c Permit) Done(o Outcome) {
	l := c.load
	if l == nil {
		return
	}
	l.inFlight.Add(-1)
	if c.pool != nil {
		c.pool.release(c.needs, o.Took)
	}
	switch o.Class {
	case Neutral:
	case Succeeded:
		if o.Latency > 0 {
			l.latency.observe(l.backend.state.clock.at(o.At), o.Latency)
		}
		if l.failing.Load() != 0 {
			l.resetFailures(l.backend.state.clock.at(o.At))
		}
	default:
		l.backend.onFailure(o, l.backend.state.clock.at(o.At))
	}
}

// resetFailures resets the counters of failures.
func (l *load) resetFailures(now time.Duration) {
	l.failing.Store(0)
	t := &l.backend.availability
	t.failures.Store(0)
	t.connectFailures.Store(0)
	t.gone.Store(false)
	if t.ejections.Load() == 0 {
		return
	}
	// A success of a call from before the ejection is no evidence for the time after it.
	if int64(now) < t.ejectedUntil.Load() {
		l.failing.Store(1)
		return
	}
	t.ejections.Store(0)
}

// onFailure counts a failure, and ejects the backend when a threshold is reached.
func (b *Backend) onFailure(o Outcome, now time.Duration) {
	if o.Latency > 0 {
		b.load.latency.peak(now, o.Latency)
	}
	rules := &b.state.fleet.Load().ejection
	count, limit := &b.availability.failures, rules.Failures
	switch {
	case o.Class.unconnected():
		count, limit = &b.availability.connectFailures, rules.ConnectFailures
	case o.Class == TimedOut && o.Latency < rules.TimeoutLeast:
		return
	}
	n := count.Add(1)
	b.load.failing.Store(1)
	if limit > 0 && int(n) >= limit {
		b.state.eject(b, o.Class, now)
	}
}
