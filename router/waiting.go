package router

import (
	"slices"
	"strings"
	"sync/atomic"
	"time"
)

// waiting is the wait queue of a fleet's calls: first in, first out within a tenant, and round-robin
// among tenants.
type waiting struct {
	lines []*line // of tenants with waiting calls, in round-robin order
	count int
	all   *atomic.Int64 // count of all fleets
}

// line is the queue of one tenant.
type line struct {
	tenant string
	calls  []*Waiter
}

// Waiter is a waiting call.
type Waiter struct {
	limiter *limiter
	entrant Entrant
	until   time.Duration
	resume  func(Admission) bool
	queued  bool // guarded by limiter.mu
}

// Cancel removes a call whose caller is gone. It may be called at any time, also on nil.
func (w *Waiter) Leave() {
	if w == nil {
		return
	}
	l := w.limiter
	l.mu.Lock()
	defer l.mu.Unlock()
	if w.queued {
		l.queue.remove(w)
	}
}

// add appends a call to its tenant's queue.
func (q *waiting) add(w *Waiter) {
	w.queued = true
	q.count++
	q.all.Add(1)
	for _, l := range q.lines {
		if l.tenant == w.entrant.Tenant {
			l.calls = append(l.calls, w)
			return
		}
	}
	w.entrant.Tenant = strings.Clone(w.entrant.Tenant)
	q.lines = append(q.lines, &line{w.entrant.Tenant, []*Waiter{w}})
}

// remove removes a call.
func (q *waiting) remove(w *Waiter) {
	for i, l := range q.lines {
		if j := slices.Index(l.calls, w); j >= 0 {
			q.take(i, j)
			return
		}
	}
}

// take removes a call from a tenant's queue, and the queue with its last call.
func (q *waiting) take(i, j int) *Waiter {
	l := q.lines[i]
	w := l.calls[j]
	w.queued = false
	q.count--
	q.all.Add(-1)
	if l.calls = slices.Delete(l.calls, j, j+1); len(l.calls) == 0 {
		q.lines = slices.Delete(q.lines, i, i+1)
	}
	return w
}

// next removes the first call that serve accepts. Its tenant becomes the last in the round-robin order.
func (q *waiting) next(serve func(*Waiter) bool) *Waiter {
	for i, l := range q.lines {
		for j, w := range l.calls {
			if serve(w) {
				q.take(i, j)
				if i < len(q.lines) && q.lines[i] == l {
					q.lines = append(slices.Delete(q.lines, i, i+1), l)
				}
				return w
			}
		}
	}
	return nil
}

// evict removes the newest call of the tenant with the most waiting calls, in favor of a tenant that has
// far fewer. Thus no tenant can fill the queue. It returns nil if there is no such call.
func (q *waiting) pushOut(tenant string) *Waiter {
	longest, most, own := -1, 0, 0
	for i, l := range q.lines {
		if n := len(l.calls); l.tenant == tenant {
			own = n
		} else if n > most {
			longest, most = i, n
		}
	}
	if most < own+2 {
		return nil
	}
	return q.take(longest, most-1)
}

// late removes a call that has waited until now or longer, if there is one. Its tenant keeps its
// position.
func (q *waiting) late(now time.Duration) *Waiter {
	for i, l := range q.lines {
		if l.calls[0].until <= now { // the others came later
			return q.take(i, 0)
		}
	}
	return nil
}

// each visits all waiting calls.
func (q *waiting) each(f func(*Waiter)) {
	for _, l := range q.lines {
		for _, w := range l.calls {
			f(w)
		}
	}
}
