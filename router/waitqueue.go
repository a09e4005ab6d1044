package router

import (
	"slices"
	"strings"
	"sync/atomic"
	"time"
)

// waitQueue is the wait queue of a fleet's calls: first in, first out within a tenant, and round-robin
// among tenants.
type waitQueue struct {
	tenants []*tenantQueue // of tenants with waiting calls, in round-robin order
	count   int
	all     *atomic.Int64 // count of all fleets
}

// tenantQueue is the queue of one tenant.
type tenantQueue struct {
	tenant  string
	waiters []*Waiter
}

// Waiter is a waiting call.
type Waiter struct {
	limiter *limiter
	request PermitRequest
	until   time.Duration
	resume  func(PermitResult) bool
	queued  bool // guarded by limiter.mu
}

// Cancel removes a call whose caller is gone. It may be called at any time, also on nil.
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
	q.tenants = append(q.tenants, &tenantQueue{w.request.Tenant, []*Waiter{w}})
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
	w.queued = false
	q.count--
	q.all.Add(-1)
	if l.waiters = slices.Delete(l.waiters, j, j+1); len(l.waiters) == 0 {
		q.tenants = slices.Delete(q.tenants, i, i+1)
	}
	return w
}

// next removes the first call that serve accepts. Its tenant becomes the last in the round-robin order.
func (q *waitQueue) next(serve func(*Waiter) bool) *Waiter {
	for i, l := range q.tenants {
		for j, w := range l.waiters {
			if serve(w) {
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

// evict removes the newest call of the tenant with the most waiting calls, in favor of a tenant that has
// far fewer. Thus no tenant can fill the queue. It returns nil if there is no such call.
func (q *waitQueue) evict(tenant string) *Waiter {
	longest, most, own := -1, 0, 0
	for i, l := range q.tenants {
		if n := len(l.waiters); l.tenant == tenant {
			own = n
		} else if n > most {
			longest, most = i, n
		}
	}
	if most < own+2 {
		return nil
	}
	return q.removeAt(longest, most-1)
}

// expired removes a call that has waited until now or longer, if there is one. Its tenant keeps its
// position.
func (q *waitQueue) expired(now time.Duration) *Waiter {
	for i, l := range q.tenants {
		if l.waiters[0].until <= now { // the others came later
			return q.removeAt(i, 0)
		}
	}
	return nil
}

// each visits all waiting calls.
func (q *waitQueue) each(f func(*Waiter)) {
	for _, l := range q.tenants {
		for _, w := range l.waiters {
			f(w)
		}
	}
}
