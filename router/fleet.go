package router

import (
	"sync/atomic"
	"time"

	"github.com/capgate/capgate/health"
	"github.com/capgate/capgate/internal/call"
)

// Fleet is the set of backends that serve one capability.
type Fleet struct {
	pick  atomic.Pointer[picker] // first: on one cache line with all else that Route reads
	clock *clock                 // standing's
	// slowStart is the time in which a backend that comes back gets its whole share.
	slowStart time.Duration

	Capability string
	Deadlines  Deadlines
	Backends   []*Backend // in the order of the configuration; not to be changed
	// Attached is what the gateway keeps with the fleet: its counters. It is set before
	// a table with the fleet is in force, and then never.
	Attached any

	cfg FleetConfig
	affinity
	standing *standing
	members  []member // Backends
	ejection Ejection
	retries  Retries

	idempotent idempotent

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
	p := f.pick.Load()
	var now time.Duration
	if p.until != never { // reading a clock costs as much as all the rest
		if now = f.clock.now(); now >= p.until {
			p = f.refresh(now)
		}
	}
	var l *load
	switch p.n {
	case 0:
		return nil, Claim{}, p.none
	case 1:
		l = p.all[0].load
	default:
		var avoid *load
		if tried != nil {
			avoid = tried.load
		}
		l = p.choose(now, avoid, f.slowStart)
	}
	l.inFlight.Add(1)
	if tried == nil {
		l.routed.Add(1)
	}
	return l.backend, Claim{l}, nil
}

// HasOther says whether calls have another choice than b.
func (f *Fleet) HasOther(b *Backend) bool {
	p := f.pick.Load()
	return p.n > 1 || p.n == 1 && p.all[0].Backend != b
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
