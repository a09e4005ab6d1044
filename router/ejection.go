package router

import (
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"time"
)

// Ejection is when calls stop going to a backend because of how calls to it ended:
// locally and at once, long before the next probe. A zero field takes its default.
type Ejection struct {
	Failures        int           // calls in a row that failed or timed out; default 5; negative: never
	ConnectFailures int           // connections in a row that could not be made; default 1; negative: never
	TimeoutLeast    time.Duration // a call that timed out counts if it was waited for so long; default 1 s
	Base            time.Duration // of the first ejection; each further one without a success between is twice as long; default 5 s
	Max             time.Duration // of any ejection; default 5 min, or Base if that is more
}

func (e Ejection) withDefaults() Ejection {
	if e.Failures == 0 {
		e.Failures = 5
	}
	if e.ConnectFailures == 0 {
		// One is enough: a connection that cannot be made is no tool's doing, the call
		// goes elsewhere, and the half of the fleet that stays bounds the harm.
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

// lasts is the length of an ejection that follows n others, varied by a fifth so
// that many gateways do not come back in step.
func (e *Ejection) lasts(n int32) time.Duration {
	d := e.Base
	for ; n > 0 && d < e.Max; n-- {
		d *= 2
	}
	return min(time.Duration(float64(d)*(0.8+0.4*rand.Float64())), e.Max)
}

// standing is what is kept of a fleet over changes of the configuration.
type standing struct {
	clock *clock
	tell  func(b *Backend, why Class, lasts time.Duration) // of ejections; may be nil
	fleet atomic.Pointer[Fleet]                            // the one that calls are routed by; changed with mu held

	limiter *limiter // of the capability, once a fleet was limited; guarded by mu

	mu     sync.Mutex // held by those who change who gets calls
	budget budget

	ejections atomic.Int64
	spared    atomic.Int64 // failures that would have ejected, but for the half that must stay
}

// eject keeps calls from a backend for a while, if the fleet can do without it.
func (s *standing) eject(b *Backend, why Class, now time.Duration) {
	if b.Session != "" {
		return // its session has no other
	}
	if int64(now) < b.turnout.ejectedUntil.Load() {
		return // one of the calls that were there when it was ejected
	}
	if p := s.fleet.Load().pick.Load(); now < p.until && !p.spare(why) {
		s.spared.Add(1) // without the lock, which many may want when everything fails
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	f := s.fleet.Load()
	p := f.musterIfDue(now)
	switch {
	case int64(now) < b.turnout.ejectedUntil.Load() || b.turnout.out:
		return
	case !p.spare(why):
		s.spared.Add(1)
		return
	}
	lasts := f.ejection.lasts(b.turnout.returns.Add(1) - 1)
	b.turnout.ejectedUntil.Store(int64(now + lasts))
	b.turnout.ejectedFor, b.turnout.ejectedAt = why, now
	b.turnout.failures.Store(0)
	b.turnout.missed.Store(0)
	s.ejections.Add(1)
	f.muster(now)
	if s.tell != nil {
		s.tell(b, why, lasts)
	}
}
