package router

import (
	"slices"
	"strings"
	"sync/atomic"
	"time"
)

// waitQueue is the wait queue of a fleet's calls: round-robin among tenants, and within a tenant first in,
// first out. While one of its calls has waited for half the time that it can wait, a tenant sends more than
// its backends can do. Its newest call is then served first: in order of arrival, every call would get its
// permit when too little time is left to use it.
type waitQueue struct {
	tenants []*tenantQueue // of tenants with waiting calls, in round-robin order
	count   int
	all     *atomic.Int64 // count of all fleets
}

// tenantQueue is the queue of one tenant.
type tenantQueue struct {
	tenant  string
	waiters []*Waiter // in order of arrival
	late    bool      // the newest is served first
}

// at returns the index of the call that is served after n others.
func (l *tenantQueue) at(n int) int {
	if l.late {
		return len(l.waiters) - 1 - n
	}
	return n
}

// Waiter is a waiting call.
type Waiter struct {
	limiter *limiter
	request PermitRequest
	late    time.Duration // the time at which half of its wait has passed
	until   time.Duration // the end of its time: a later permit is useless
	resume  func(PermitResult) bool
	queued  bool // guarded by limiter.mu
}

// Cancel removes a call after its caller has gone away. It may be called at any time, also on nil.
func (w *Waiter) Cancel() {
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
func (q *waitQueue) add(w *Waiter) {
	w.queued = true
	q.count++
	q.all.Add(1)
	for _, l := range q.tenants {
		if l.tenant == w.request.Tenant {
			l.waiters = append(l.waiters, w)
			return
		}
	}
	w.request.Tenant = strings.Clone(w.request.Tenant)
	q.tenants = append(q.tenants, &tenantQueue{tenant: w.request.Tenant, waiters: []*Waiter{w}})
}

// remove removes a call.
func (q *waitQueue) remove(w *Waiter) {
	for i, l := range q.tenants {
		if j := slices.Index(l.waiters, w); j >= 0 {
			q.removeAt(i, j)
			return
		}
	}
}

// removeAt removes a call from a tenant's queue, and the queue with its last call.
func (q *waitQueue) removeAt(i, j int) *Waiter {
	l := q.tenants[i]
	w := l.waiters[j]
	q.left(w)
	if l.waiters = slices.Delete(l.waiters, j, j+1); len(l.waiters) == 0 {
		q.tenants = slices.Delete(q.tenants, i, i+1)
	}
	return w
}

// left counts a call that is removed.
func (q *waitQueue) left(w *Waiter) {
	w.queued = false
	q.count--
	q.all.Add(-1)
}

// next removes the first call that can use a permit now and that serve accepts. Its tenant becomes the last
// in the round-robin order.
func (q *waitQueue) next(now time.Duration, serve func(*Waiter) bool) *Waiter {
	for i, l := range q.tenants {
		for n := range l.waiters {
			j := l.at(n)
			if w := l.waiters[j]; w.until > now && serve(w) {
				q.removeAt(i, j)
				if i < len(q.tenants) && q.tenants[i] == l {
					q.tenants = append(slices.Delete(q.tenants, i, i+1), l)
				}
				return w
			}
		}
	}
	return nil
}

// evict removes the call that would be served last of the tenant with the most waiting calls, in favor of a
// tenant that has far fewer. Thus no tenant can fill the queue. Otherwise it removes the oldest of the tenant's
// own calls, if its newest is served first. It returns nil if there is no such call.
func (q *waitQueue) evict(tenant string) *Waiter {
	longest, most, own, mine := -1, 0, -1, 0
	for i, l := range q.tenants {
		if n := len(l.waiters); l.tenant == tenant {
			own, mine = i, n
		} else if n > most {
			longest, most = i, n
		}
	}
	switch {
	case most >= mine+2:
		return q.removeAt(longest, q.tenants[longest].at(most-1))
	case mine > 0 && q.tenants[own].late:
		return q.removeAt(own, 0)
	}
	return nil
}

// expire removes the calls that have run out of time, and passes them to refuse. For the others it sets the order in
// which their tenants are served.
func (q *waitQueue) expire(now time.Duration, refuse func(*Waiter)) {
	for _, l := range q.tenants {
		l.late = false
		l.waiters = slices.DeleteFunc(l.waiters, func(w *Waiter) bool {
			if w.until > now {
				l.late = l.late || w.late <= now
				return false
			}
			q.left(w)
			refuse(w)
			return true
		})
	}
	q.tenants = slices.DeleteFunc(q.tenants, func(l *tenantQueue) bool { return len(l.waiters) == 0 })
}

// each visits all waiting calls.
func (q *waitQueue) each(f func(*Waiter)) {
	for _, l := range q.tenants {
		for _, w := range l.waiters {
			f(w)
		}
	}
}
