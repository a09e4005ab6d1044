package router

import (
	"slices"
	"strings"
	"sync/atomic"
	"time"
)

// waiting are the calls of a fleet that wait for a place: first come first served among
// those of a tenant, and the tenants take turns.
type waiting struct {
	lines []*line // of tenants that have somebody waiting, in the order of their turns
	count int
	all   *atomic.Int64 // count of all fleets
}

// line is one tenant's.
type line struct {
	tenant string
	calls  []*Waiter
}

// Waiter is a call that waits.
type Waiter struct {
	limiter *limiter
	entrant Entrant
	until   time.Duration
	resume  func(Admission) bool
	queued  bool // guarded by limiter.mu
}

// Leave takes a call out whose caller has left. It may be called at any time, also
// on nil.
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

func (q *waiting) remove(w *Waiter) {
	for i, l := range q.lines {
		if j := slices.Index(l.calls, w); j >= 0 {
			q.take(i, j)
			return
		}
	}
}

// take takes a call out of a line, which ends if it was the last.
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

// next takes out the call whose turn it is among those that can be served, and its
// tenant is the last to have a turn again.
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

// pushOut takes out the call that came last of the tenant of which most wait, for one of a tenant of which far fewer do:
// no tenant fills a queue so that another finds no place in it. It is nil if there is none such.
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

// late takes out a call that has waited until now or longer, if there is one. Its tenant
// keeps its turn.
func (q *waiting) late(now time.Duration) *Waiter {
	for i, l := range q.lines {
		if l.calls[0].until <= now { // the others came later
			return q.take(i, 0)
		}
	}
	return nil
}

// each visits all that wait.
func (q *waiting) each(f func(*Waiter)) {
	for _, l := range q.lines {
		for _, w := range l.calls {
			f(w)
		}
	}
}
