package router

import (
	"cmp"
	"sync"
	"sync/atomic"
	"time"

	"github.com/capgate/capgate/internal/lib/backoff"
	"github.com/capgate/capgate/internal/lib/strictyaml"
)

// Ejection is outlier detection: a backend gets no calls for a while because of the results of earlier calls, locally
// and long before the next probe. A zero field takes its default.
type Ejection struct {
	// Consecutive calls that were lost, timed out or got UNAVAILABLE; 0: never. A failed connection ejects at once,
	// unless this is 0.
	Failures int `yaml:"failures" min:"0" max:"1000" default:"5"`
	// Duration of the first ejection. Each further one without a success in between is twice as long, plus or minus a
	// fifth, up to 60 times.
	Base time.Duration `yaml:"base" min:"10ms" max:"24h" default:"5s"`

	ConnectFailures int           `yaml:"-"` // consecutive failed connections; default 1; negative: never
	TimeoutLeast    time.Duration `yaml:"-"` // shortest wait after which a timeout counts; default 1 s
	Max             time.Duration `yaml:"-"` // of any ejection; default 60 times Base
}

// Check completes the values of the file, where 0 means never.
func (e *Ejection) Check(strictyaml.At) {
	if e.Failures == 0 {
		e.Failures, e.ConnectFailures = -1, -1
	}
}

func (e Ejection) withDefaults() Ejection {
	of := defaults().Ejection
	e.Failures, e.Base = cmp.Or(e.Failures, of.Failures), cmp.Or(e.Base, of.Base)
	// One is enough: no tool causes a failed connection, the call can go elsewhere, and the half of the fleet that
	// stays bounds the harm.
	e.ConnectFailures = cmp.Or(e.ConnectFailures, 1)
	e.TimeoutLeast = cmp.Or(e.TimeoutLeast, time.Second)
	e.Max = max(cmp.Or(e.Max, 60*e.Base), e.Base)
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
