package ratelimit

import (
	"context"
	"math"
	"slices"
	"sync"
	"time"

	"github.com/capgate/capgate/internal/lib/recovery"
	"github.com/capgate/capgate/internal/lib/signal"
)

// queue has the tenants with demands, in the order of arrival.
type queue struct {
	all  []queued
	late int // number of late ones, at the front
}

// queued is a tenant in the queue.
type queued struct {
	*tenantState
	lateAt time.Duration // time after which the store is late
}

func (q *queue) push(a *tenantState, lateAt time.Duration) { q.all = append(q.all, queued{a, lateAt}) }

func (q *queue) pop() queued {
	next := q.all[0]
	q.all[0] = queued{}
	q.all, q.late = q.all[1:], max(q.late-1, 0)
	return next
}

// overdue returns the tenants that became late since the last call, and the time of the next one.
func (q *queue) overdue(now time.Duration) (late []queued, next time.Duration) {
	from := q.late
	for ; q.late < len(q.all); q.late++ {
		if next = q.all[q.late].lateAt; next > now {
			return slices.Clone(q.all[from:q.late]), next
		}
	}
	return slices.Clone(q.all[from:]), math.MaxInt64
}

// Wait arranges for a call of resume, on another goroutine, when Take may succeed.
func (l *Limiter) Wait(p *Permit, resume func()) {
	s := p.missing
	p.missing = nil
	l.waiting.Add(1)
	a := s.of
	a.mu.Lock()
	defer a.mu.Unlock()
	if p.concurrent && s.softStart.Active(l.now()) && !a.late {
		s.patient = append(s.patient, resume)
		return
	}
	p.rounds++
	s.want(p.concurrent)
	if a.late {
		l.fallBackScope(s)
		l.resume(resume)
		return
	}
	a.waiting = append(a.waiting, resume)
	a.schedule(s)
}

// want records a waiting call. The caller holds the lock of the tenant's state.
func (s *scope) want(concurrent bool) {
	if !concurrent {
		s.need++
	}
	if concurrent || s.bounds.Load().Concurrent > 0 && s.permits.left() <= 0 {
		s.wanting++
	}
}

// want demands what a call in shadow mode would have waited for.
func (l *Limiter) want(a *tenantState, s *scope, concurrent bool) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if concurrent && s.wanting == 0 || !concurrent && s.need == 0 { // one demand for all of them
		s.want(concurrent)
	}
	a.schedule(s)
}

// refill schedules a demand before all is used up.
func (l *Limiter) refill(s *scope) {
	if s.due.Load() {
		return
	}
	s.of.mu.Lock()
	defer s.of.mu.Unlock()
	s.of.schedule(s)
}

// enqueue adds a tenant to the queue.
func (l *Limiter) enqueue(a *tenantState) {
	l.mu.Lock()
	l.due.push(a, l.now()+storeTimeout)
	l.mu.Unlock()
	signal.Wake(l.wake)
}

// resume continues a call on the Limiter's own goroutine, as the current one may hold a lock of the call.
func (l *Limiter) resume(f func()) {
	l.mu.Lock()
	l.resumable = append(l.resumable, f)
	l.mu.Unlock()
	signal.Wake(l.wake)
}

// start resumes calls, and starts exchanges up to their maximum. For tenants that have waited too long it falls back
// to the replica's share. It returns the time when the next one is late.
func (l *Limiter) start(ctx context.Context, running *sync.WaitGroup) (nextLate time.Duration) {
	l.mu.Lock()
	resumable := l.resumable
	l.resumable = nil
	for len(l.due.all) > 0 && l.busy < maxExchanges {
		next := l.due.pop()
		l.busy++
		running.Go(func() {
			recovery.Round("tenant limits", func() { l.exchange(ctx, next.tenantState, next.lateAt) })
			l.mu.Lock()
			l.busy--
			l.mu.Unlock()
			signal.Wake(l.wake)
		})
	}
	late, nextLate := l.due.overdue(l.now())
	l.mu.Unlock()
	for _, t := range late {
		resumable = append(resumable, t.fallBackQueued()...)
	}
	l.release(resumable)
	return nextLate
}

func (l *Limiter) release(waiting []func()) {
	l.waiting.Add(-int64(len(waiting)))
	for _, f := range waiting {
		f()
	}
}
