package router

import (
	"sync/atomic"
	"time"

	"github.com/capgate/capgate/health"
	"github.com/capgate/capgate/internal/call"
)

// Fleet is the set of backends that serve one capability. It is one cache line: the calls of ten
// thousand capabilities miss the caches, so each must touch as little memory as possible.
type Fleet struct {
	Capability string

	uniform atomic.Int32 // number of loads, if Route may take any two of them; else 0
	loads   []load       // of the backends that were created with this fleet, in order
	clock   *clock       // standing's
	*details
}

// details is the rest of a fleet, which a call needs only after routing or in exceptional cases.
type details struct {
	Deadlines Deadlines
	limiter   *limiter // nil: unlimited
	// Attached is the gateway's data about the fleet: its counters. It is set before a table with the
	// fleet is in force, and never changes.
	Attached any
	Backends []*Backend // in the order of the configuration; immutable

	pick atomic.Pointer[picker]
	cfg  FleetConfig
	affinity
	state    *fleetState
	members  []member // Backends
	ejection Ejection
	retries  Retries
	// assertion is nil if backends receive none.
	assertion *Assertion
	// slowStart is the time in which a returning backend reaches its whole share.
	slowStart time.Duration

	idempotent, eventSource declared

	limit Limit

	states []health.Backend // of members; guarded by state.mu
	health *health.Snapshot // the same, published; guarded by state.mu
}

// Audience returns the audience of assertions for a backend; "": it receives none.
func (f *Fleet) Audience(addr string) string { return f.assertion.Of(f.Capability, addr) }

// DoubtsRefusals reports whether REFUSED_STREAM of the fleet's backends does not prove that a call did not run.
func (f *Fleet) DoubtsRefusals() bool { return f.retries.Proxy }

// retryAfter is the Retry-After of calls without a healthy backend: about the time in which health
// notices a recovery.
const retryAfter = time.Second

// Route chooses a backend: of two random ones, the one that promises the faster answer. That spreads
// load nearly as well as comparing all of them, and costs two reads. The caller must end the permit
// exactly once with the call's outcome, when the call is over or was not sent.
//
// tried is the backend where an earlier attempt of the call provably did not start, or nil. Route
// prefers another one. A fleet's only usable backend gets the call again: a closing connection says
// nothing about the next one.
func (f *Fleet) Route(tried *Backend) (backend *Backend, claim Permit, refusal *call.Refusal) {
	var l *load
	if n := f.uniform.Load(); n > 0 {
		l = f.pickUniform(uint64(n), tried)
	} else if l, refusal = f.choose(tried); refusal != nil {
		return nil, Permit{}, refusal
	}
	l.inFlight.Add(1)
	if tried == nil {
		l.routed.Add(1)
	}
	return l.backend, Permit{load: l}, nil
}

// HasOther reports whether there is a usable backend other than b.
func (f *Fleet) HasOther(b *Backend) bool {
	p := f.pick.Load()
	return len(p.all) > 1 || len(p.all) == 1 && p.all[0].Backend != b
}

// MatchDialect returns the least loaded usable backend with a known dialect that fits; nil if there is
// none. It returns one that was tried only if there is no other.
func (f *Fleet) MatchDialect(fits func(call.Dialect) bool, tried *Tried) *Backend {
	var best *Backend
	for _, m := range f.pick.Load().all {
		d := m.Dialect()
		switch {
		case d == call.Auto || !fits(d):
		case best == nil, tried.Has(best), !tried.Has(m.Backend) && m.load.lighter(best.load):
			best = m.Backend
		}
	}
	return best
}

// pickUniform chooses a backend by load alone: the fast path of Route.
func (f *Fleet) pickUniform(n uint64, tried *Backend) *load {
	if n == 1 {
		return &f.loads[0]
	}
	i, j := pair(n)
	return better(&f.loads[i], &f.loads[j], tried)
}

// choose chooses a backend by zone, weight and load: the general path of Route.
func (f *Fleet) choose(tried *Backend) (*load, *call.Refusal) {
	p := f.pick.Load()
	var now time.Duration
	if p.until != never { // reading a clock costs as much as all the rest
		if now = f.clock.now(); now >= p.until {
			p = f.refresh(now)
		}
	}
	switch len(p.all) {
	case 0:
		return nil, p.none
	case 1:
		return p.all[0].load, nil
	}
	return p.choose(now, tried, f.slowStart), nil
}

// refresh rebuilds an outdated picker, unless another goroutine is doing so: then this call uses the
// outdated one.
func (f *Fleet) refresh(now time.Duration) *picker {
	if !f.state.mu.TryLock() {
		return f.pick.Load()
	}
	defer f.state.mu.Unlock()
	return f.rebuildIfDue(now)
}
