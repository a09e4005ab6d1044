package ratelimit

import (
	"context"
	"sync"
	"sync/atomic"
	"time"

	"github.com/capgate/capgate/internal/lib/recovery"
)

// exchanges counts the results of exchanges, by scope.
type exchanges struct{ granted, denied, ownShare, failed atomic.Int64 }

// Stats counts the results of exchanges. The counters only grow.
type Stats struct{ Granted, Denied, OwnShare, Failed int64 }

// Stats is safe for concurrent use.
func (l *Limiter) Stats() Stats {
	return Stats{l.counts.granted.Load(), l.counts.denied.Load(), l.counts.ownShare.Load(), l.counts.failed.Load()}
}

// Run exchanges with the store until ctx ends, and then returns unused leases.
func (l *Limiter) Run(ctx context.Context) {
	var running sync.WaitGroup
	defer running.Wait()
	asking, stop := context.WithCancel(context.WithoutCancel(ctx))
	defer stop()
	l.countReplicas()
	next := l.now() + tickEvery
	timer := time.NewTimer(tickEvery)
	defer timer.Stop()
	for ctx.Err() == nil {
		nextLate := l.start(asking, &running)
		timer.Reset(max(min(next, nextLate)-l.now(), time.Millisecond))
		select {
		case <-ctx.Done():
		case <-l.wake:
		case <-timer.C:
		}
		if l.now() >= next {
			next = l.tick()
		}
	}
	running.Wait() // for the last messages, which those of releaseAll must not overtake
	l.releaseAll(asking)
}

// countReplicas updates the number of replicas, if it is known.
func (l *Limiter) countReplicas() {
	if l.cfg.Replicas == nil {
		return
	}
	if n := l.cfg.Replicas(); n > 0 {
		l.replicas.Store(int64(n))
	}
}

// tick returns the time of the next tick.
func (l *Limiter) tick() (next time.Duration) {
	l.countReplicas()
	now := l.now()
	next = now + tickEvery
	l.tenants.Range(func(_, v any) bool {
		a := v.(*tenantState)
		var idle bool
		if next, idle = a.tick(now, next); idle {
			l.forget(a)
		}
		return true
	})
	return next
}

func (l *Limiter) forget(a *tenantState) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.scheduled || len(a.waiting) > 0 {
		return
	}
	a.end()
}

// end removes a tenant's state. The caller holds mu.
func (a *tenantState) end() {
	a.gone.Store(true)
	a.limiter.tenants.CompareAndDelete(a.owner.ID, a)
	p := a.plan.Load()
	for i := range p.rules {
		p.rules[i].each(func(s *scope) { s.gone = true })
	}
}

// exchange exchanges a tenant's demands with the store. Waiting calls continue when the store responds or is late.
func (l *Limiter) exchange(ctx context.Context, a *tenantState, lateAt time.Duration) {
	scopes, demands, waiting := a.collect(l.now())
	if len(demands) > 0 {
		type result struct {
			grants []Grant
			err    error
		}
		done := make(chan result, 1)
		go func() {
			var r result
			r.err = recovery.Do("tenant limits", func() (err error) {
				r.grants, err = l.cfg.Store.Exchange(ctx, a.owner, demands)
				return err
			})
			done <- r
		}()
		late := time.NewTimer(max(lateAt-l.now(), time.Millisecond))
		var r result
		select {
		case r = <-done:
		case <-late.C:
			a.fallBack(scopes, demands)
			l.release(waiting)
			waiting = nil
			r = <-done
		}
		late.Stop()
		a.settle(scopes, demands, r.grants, r.err)
	}
	l.release(waiting)
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.scheduled = len(a.due) > 0 || len(a.waiting) > 0; a.scheduled {
		l.enqueue(a)
	}
}

// collect returns the demands, and the calls that wait for their grants.
func (a *tenantState) collect(now time.Duration) (scopes []*scope, demands []Demand, waiting []func()) {
	a.mu.Lock()
	defer a.mu.Unlock()
	n := min(len(a.due), MaxDemands)
	for _, s := range a.due[:n] {
		s.due.Store(false)
		if s.gone {
			continue
		}
		if ask := s.demandOf(now); ask.nonEmpty() {
			scopes, demands = append(scopes, s), append(demands, ask)
			if ask.Unleased > 0 {
				s.provisional = 0 // the store learns of them now
			}
		}
	}
	a.due = append([]*scope(nil), a.due[n:]...)
	a.late = a.late && len(demands) > 0
	if len(a.due) == 0 { // otherwise they wait for the remaining demands
		waiting, a.waiting = a.waiting, nil
	}
	return scopes, demands, waiting
}

// settle applies the store's grants, or the replica's share after an error.
func (a *tenantState) settle(scopes []*scope, demands []Demand, grants []Grant, err error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	l := a.limiter
	now, late := l.now(), a.late
	a.late = false
	failed := err != nil || len(grants) != len(demands)
	for i, s := range scopes {
		if failed {
			l.counts.failed.Add(1)
			s.unreported += demands[i].Unleased // Returned is not restored: the store may have it
			demands[i].Unleased = 0
			if !late {
				a.grantLocally(s, &demands[i])
			}
			continue
		}
		got := &grants[i]
		if got.Calls < demands[i].Want || got.Permits < demands[i].Retain+demands[i].Need {
			l.counts.denied.Add(1)
		} else {
			l.counts.granted.Add(1)
		}
		s.observe(got, now, l.replicas.Load())
		if late { // the grant covers calls that were admitted provisionally
			covered := min(s.provisional, got.Calls)
			got.Calls, demands[i].Want, s.unreported = got.Calls-covered, demands[i].Want-covered,
				max(s.unreported-covered, 0)
			demands[i].Retain, demands[i].Need = s.held, max(demands[i].Retain+demands[i].Need-s.held, 0)
		}
		s.provisional = 0
		s.apply(&demands[i], got, now)
	}
}

// releaseAll returns all unused leases.
func (l *Limiter) releaseAll(ctx context.Context) {
	l.tenants.Range(func(_, v any) bool {
		a := v.(*tenantState)
		a.mu.Lock()
		p := a.plan.Load()
		for i := range p.rules {
			p.rules[i].each(func(s *scope) { s.releaseAll() })
		}
		a.mu.Unlock()
		for more := true; more; {
			_, demands, waiting := a.collect(l.now())
			if len(demands) > 0 {
				_, _ = l.cfg.Store.Exchange(ctx, a.owner, demands) // without it permits expire
			}
			l.release(waiting)
			a.mu.Lock()
			more = len(a.due) > 0
			a.mu.Unlock()
		}
		return true
	})
}

// releaseAll returns the unused leases of a scope. The caller holds the lock of the tenant's state.
func (s *scope) releaseAll() {
	s.of.waiting = append(s.of.waiting, s.patient...)
	s.patient = nil
	n := s.calls.drain(s.calls.left())
	s.granted -= n
	if n > 0 {
		s.returned += n
	}
	s.quiet, s.peak, s.before, s.fresh, s.yield = idleTicks, 0, 0, 0, true
	if s.held > 0 || s.returned > 0 || s.unreported > 0 {
		s.of.schedule(s)
	}
}
