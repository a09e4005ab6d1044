package router

import (
	"sync"
	"sync/atomic"

	"github.com/capgate/capgate/health"
)

// Router holds the table in force. Calls read it without locks.
type Router struct {
	table  atomic.Pointer[Table]
	mu     sync.Mutex // held for every change that calls see
	drains drains     // guarded by mu
}

// New returns a Router with t in force.
func New(t *Table) *Router {
	r := &Router{}
	r.table.Store(t)
	for _, f := range t.ordered {
		f.state.fleet.Store(f)
	}
	return r
}

// Table returns the table in force. A call uses one table until it ends.
func (r *Router) Table() *Table { return r.table.Load() }

// Swap puts next in force, which NewTable made with the current table as prev. Backends that stay
// keep their health. Attached of next's fleets and backends must be set before.
func (r *Router) Swap(next *Table) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, f := range next.ordered {
		if old := r.Table().fleets[f.Capability]; old != f {
			f.drain(r.drains)
			f.takeOver(old)
		}
	}
	for _, old := range r.Table().ordered {
		if next.fleets[old.Capability] == nil {
			old.end()
		}
	}
	r.table.Store(next)
}

// SetHealth publishes a new snapshot of a fleet. Capabilities and backends that are not in the table
// are ignored: health may lag behind it for a moment.
func (r *Router) SetHealth(s *health.Snapshot) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if f := r.Table().fleets[s.Capability]; f != nil {
		f.state.mu.Lock()
		defer f.state.mu.Unlock()
		f.setHealth(s)
		f.state.resumeReady()
	}
}

// takeOver makes f the current fleet, after old, which may be nil.
func (f *Fleet) takeOver(old *Fleet) {
	f.state.mu.Lock()
	defer f.state.mu.Unlock()
	if old != nil {
		f.setHealth(old.health)
	}
	f.state.fleet.Store(f)
	f.state.resumeReady()
	if l := f.state.limiter; l != nil {
		l.configure(f)
	}
}

// end releases the limiter of a fleet that was removed.
func (f *Fleet) end() {
	f.state.mu.Lock()
	defer f.state.mu.Unlock()
	if l := f.state.limiter; l != nil {
		l.limits.retire(l)
	}
}
