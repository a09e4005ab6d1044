package router

import (
	"sync"
	"sync/atomic"
	"time"

	"github.com/capgate/capgate/internal/lib/backoff"
)

// Ejection configures outlier detection: a backend is ejected because of the outcomes of its calls,
// locally and at once, long before the next probe. A zero field takes its default.
type Ejection struct {
	Failures        int           // consecutive calls that failed or timed out; default 5; negative: never
	ConnectFailures int           // consecutive failed connections; default 1; negative: never
	TimeoutLeast    time.Duration // shortest wait after which a timeout counts; default 1 s
	// Base is the length of the first ejection; default 5 s. It doubles with each further ejection
	// without a success between.
	Base time.Duration
	Max  time.Duration // of any ejection; default 5 min, or Base if that is more
}

func (e Ejection) withDefaults() Ejection {
	if e.Failures == 0 {
		e.Failures = 5
	}
	if e.ConnectFailures == 0 {
		// One is enough: no tool causes a failed connection, the call can go elsewhere, and the half of
		// the fleet that stays bounds the harm.
		e.ConnectFailures = 1
	}
	if e.TimeoutLeast <= 0 {
		e.TimeoutLeast = time.Second
	}
	if e.Base <= 0 {
		e.Base = 5 * time.Second
	}
	if e.Max <= 0 {
		e.Max = 5 * time.Minute
	}
	e.Max = max(e.Max, e.Base)
	return e
}

// lasts returns the length of an ejection that follows n others. It varies by a fifth so that many
// gateways do not synchronize.
func (e *Ejection) lasts(n int32) time.Duration {
	d := e.Base
	for ; n > 0 && d < e.Max; n-- {
		d *= 2
	}
	return min(backoff.Jitter(d, 0.2), e.Max)
}

// fleetState is the state of a fleet that outlives configuration changes.
type fleetState struct {
	clock      *clock
	onEjection func(b *Backend, why Class, lasts time.Duration) // called for each ejection; may be nil
	fleet      atomic.Pointer[Fleet]                            // the current one; changed with mu held

	ready readiness

	limiter *limiter // of the capability, once a fleet was limited; guarded by mu

	mu     sync.Mutex // held while the usable backends change
	budget budget

	ejections atomic.Int64
	overflow  atomic.Int64 // failures that ejected no backend because the rest of the fleet must stay
}

// eject ejects a backend for a while, if the fleet can do without it.
func (s *fleetState) eject(b *Backend, why Class, now time.Duration) {
	if b.Session != "" {
		return // its session has no other backend
	}
	if int64(now) < b.availability.ejectedUntil.Load() {
		return // the call started before the ejection
	}
	if p := s.fleet.Load().pick.Load(); now < p.until && !p.canEject(why) {
		s.overflow.Add(1) // without the lock, which is contended when everything fails
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	f := s.fleet.Load()
	p := f.rebuildIfDue(now)
	switch {
	case int64(now) < b.availability.ejectedUntil.Load() || b.availability.excluded:
		return
	case !p.canEject(why):
		s.overflow.Add(1)
		return
	}
	lasts := f.ejection.lasts(b.availability.ejections.Add(1) - 1)
	b.availability.ejectedUntil.Store(int64(now + lasts))
	b.availability.ejectedFor, b.availability.ejectedAt = why, now
	b.availability.failures.Store(0)
	b.availability.connectFailures.Store(0)
	s.ejections.Add(1)
	f.rebuild(now)
	if s.onEjection != nil {
		s.onEjection(b, why, lasts)
	}
}
