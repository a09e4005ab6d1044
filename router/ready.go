package router

import (
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/capgate/capgate/health"
	"github.com/capgate/capgate/internal/lib/recovery"
)

// expediteEvery is the least time between two demands for early probes of one fleet.
const expediteEvery = 100 * time.Millisecond

// readiness is the calls of a capability that wait until one of its backends is ready.
type readiness struct {
	expedited atomic.Int64 // when early probes were demanded last, time of the clock

	mu      sync.Mutex
	waiting map[*ReadyWait]struct{}
}

// ReadyWait is a call that waits until its fleet is ready.
type ReadyWait struct {
	state           *fleetState
	tenant, session string
	resume          func()
	timer           *time.Timer
}

// Ready reports whether a call of a session, "" if it has none, may be routed: a backend that it may use is not known
// to be down. While there is none, WaitForReady is above 0 and backends do not run, or were never probed, a call should
// AwaitReady. Calls in panic routing, and to a fleet that operators have drained, need not wait.
func (f *Fleet) Ready(tenant, session string) bool {
	if f.uniform.Load() > 0 {
		return true
	}
	if f.reserved == nil || session == "" {
		return !f.pick.Load().absent
	}
	own := f.reservedFor(tenant, session)
	if len(own) == 0 {
		return !f.pick.Load().absent
	}
	return f.cfg.WaitForReady <= 0 || slices.ContainsFunc(own, (*Backend).Alive)
}

// WaitForReady returns the longest wait of a call until its fleet is Ready; 0: none.
func (f *Fleet) WaitForReady() time.Duration { return f.cfg.WaitForReady }

// Current returns the capability's fleet of the table in force, or the last one that there was.
func (f *Fleet) Current() *Fleet { return f.state.fleet.Load() }

// Expedite reports whether probes of a fleet that is not Ready should be made early. It limits their rate: one of many
// callers gets true.
func (f *Fleet) Expedite() bool {
	now, last := f.clock.now(), &f.state.ready.expedited
	at := last.Load()
	return (at == 0 || time.Duration(at)+expediteEvery <= now) && last.CompareAndSwap(at, int64(max(now, 1)))
}

// AwaitReady makes a call wait until the current fleet is Ready, for at most WaitForReady. It calls park under a lock.
// The function that park returns resumes the call; it runs once, on another goroutine. AwaitReady returns nil if there
// is nothing left to wait for.
func (f *Fleet) AwaitReady(tenant, session string, park func() (resume func())) *ReadyWait {
	r := &f.state.ready
	r.mu.Lock()
	defer r.mu.Unlock()
	if f.Current().Ready(tenant, session) {
		return nil
	}
	w := &ReadyWait{state: f.state, tenant: tenant, session: session, resume: park()}
	w.timer = time.AfterFunc(f.cfg.WaitForReady, recovery.Func("ready", func() {
		if w.Cancel() {
			w.resume()
		}
	}))
	if r.waiting == nil {
		r.waiting = map[*ReadyWait]struct{}{}
	}
	r.waiting[w] = struct{}{}
	return w
}

// Cancel ends a wait without resuming its call. It returns false if the call was already resumed. It may be called at
// any time, also on nil.
func (w *ReadyWait) Cancel() bool {
	if w == nil {
		return false
	}
	r := &w.state.ready
	r.mu.Lock()
	defer r.mu.Unlock()
	if _, waits := r.waiting[w]; !waits {
		return false
	}
	delete(r.waiting, w)
	w.timer.Stop()
	return true
}

// resumeReady resumes the calls that wait no longer, as the health or the drains of the current fleet have changed. It
// does so on a separate goroutine: the caller holds state.mu.
func (s *fleetState) resumeReady() {
	r, f := &s.ready, s.fleet.Load()
	r.mu.Lock()
	defer r.mu.Unlock()
	var ready []*ReadyWait
	for w := range r.waiting {
		if f.Ready(w.tenant, w.session) {
			delete(r.waiting, w)
			w.timer.Stop()
			ready = append(ready, w)
		}
	}
	if len(ready) > 0 {
		go recovery.Round("ready", func() {
			for _, w := range ready {
				w.resume()
			}
		})
	}
}

// isAbsent reports whether no backend is worth a call, but one may come: none runs, or none was probed yet.
func (f *Fleet) isAbsent(panicked bool) bool {
	if f.cfg.WaitForReady <= 0 {
		return false
	}
	may := len(f.members) == 0
	for i, m := range f.members {
		state := &f.states[i]
		switch {
		case m.Session != "" || m.weight == 0 || m.Draining():
		case state.Unprobed() || state.Absent() || state.State == health.Down && !panicked:
			may = true
		default:
			return false
		}
	}
	return may
}
