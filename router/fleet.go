package router

import (
	"sync/atomic"
	"time"

	"github.com/capgate/capgate/health"
	"github.com/capgate/capgate/internal/call"
)

// Fleet is the set of backends that serve one capability. It is one cache line: the
// calls of ten thousand capabilities do not find theirs in the caches, and each must go
// over as little memory as can be.
type Fleet struct {
	Capability string

	even  atomic.Int32 // how many loads there are, while Route may take any two of them; else 0
	loads []load       // of the backends that came with this fleet, in their order
	clock *clock       // standing's
	*about
}

// about is what calls need of a fleet once they are routed, or when something is the
// matter with it.
type about struct {
	Deadlines Deadlines
	limiter   *limiter // nil: unlimited
	// Attached is what the gateway keeps with the fleet: its counters. It is set before
	// a table with the fleet is in force, and then never.
	Attached any
	Backends []*Backend // in the order of the configuration; not to be changed

	pick atomic.Pointer[picker]
	cfg  FleetConfig
	affinity
	standing *standing
	members  []member // Backends
	ejection Ejection
	retries  Retries
	// slowStart is the time in which a backend that comes back gets its whole share.
	slowStart time.Duration

	idempotent, eventSource declared

	limit Limit

	states []health.Backend // of members; guarded by standing.mu
	health *health.Snapshot // the same for others; guarded by standing.mu
}

// retryAfter is told to callers that find no healthy backend: about the time in
// which health notices that one has come back.
const retryAfter = time.Second

// Route chooses a backend: of two drawn at random, the one that promises to answer
// sooner, which spreads load nearly as well as asking all of them and costs two
// reads. The caller must end the claim exactly once, when the call is over or was not
// sent, and say what it learned of the backend.
//
// tried is the backend where a first try of the same call provably did not start,
// or nil. Another one is chosen if there is one; a fleet's only usable backend
// gets the call again, since a connection that was going away says nothing about
// the next one.
func (f *Fleet) Route(tried *Backend) (target *Backend, claim Claim, refusal *call.Refusal) {
	var l *load
	if n := f.even.Load(); n > 0 {
		l = f.any(uint64(n), tried)
	} else if l, refusal = f.choose(tried); refusal != nil {
		return nil, Claim{}, refusal
	}
	l.inFlight.Add(1)
	if tried == nil {
		l.routed.Add(1)
	}
	return l.backend, Claim{load: l, clock: f.clock}, nil
}

// HasOther says whether calls have another choice than b.
func (f *Fleet) HasOther(b *Backend) bool {
	p := f.pick.Load()
	return len(p.all) > 1 || len(p.all) == 1 && p.all[0].Backend != b
}

// Speaking is the usable backend with the least to do of those that speak a dialect that
// fits; nil if there is none of which that is known. tried, which may be nil, is taken only if
// there is no other.
func (f *Fleet) Speaking(fits func(call.Dialect) bool, tried *Backend) *Backend {
	var best *Backend
	for _, m := range f.pick.Load().all {
		d := m.Dialect()
		switch {
		case d == call.Auto || !fits(d):
		case best == nil, best == tried, m.Backend != tried && m.load.lighter(best.load):
			best = m.Backend
		}
	}
	return best
}

// any is Route where there is nothing to consider but loads, as it mostly is.
func (f *Fleet) any(n uint64, tried *Backend) *load {
	if n == 1 {
		return &f.loads[0]
	}
	i, j := pair(n)
	return better(&f.loads[i], &f.loads[j], tried)
}

// choose is Route in all other cases.
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

// refresh makes the picker that is due, unless somebody is at it: then the one that
// is out of date will do for this call, too.
func (f *Fleet) refresh(now time.Duration) *picker {
	if !f.standing.mu.TryLock() {
		return f.pick.Load()
	}
	defer f.standing.mu.Unlock()
	return f.musterIfDue(now)
}
