package ratelimit

import (
	"context"
	"sync"
	"sync/atomic"
	"time"

	"github.com/capgate/capgate/internal/lib/recovery"
)

// exchanges are what became of exchanges, by scope.
type exchanges struct{ granted, denied, ownShare, failed atomic.Int64 }

// Stats is what became of questions to the store. It only grows.
type Stats struct{ Granted, Denied, OwnShare, Failed int64 }

// Stats may be called from any goroutine.
func (l *Limiter) Stats() Stats {
	return Stats{l.counts.granted.Load(), l.counts.denied.Load(), l.counts.ownShare.Load(), l.counts.failed.Load()}
}

// Run works until ctx ends, and then gives back what no call has.
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
		impatient := l.start(asking, &running)
		timer.Reset(max(min(next, impatient)-l.now(), time.Millisecond))
		select {
		case <-ctx.Done():
		case <-l.wake:
		case <-timer.C:
		}
		if l.now() >= next {
			next = l.tick()
		}
	}
	l.leave(asking)
}

// countReplicas takes note of how many there are, if that is known.
func (l *Limiter) countReplicas() {
	if l.cfg.Replicas == nil {
		return
	}
	if n := l.cfg.Replicas(); n > 0 {
		l.replicas.Store(int64(n))
	}
}

// tick returns when the next is due.
func (l *Limiter) tick() (next time.Duration) {
	l.countReplicas()
	now := l.now()
	next = now + tickEvery
	l.accounts.Range(func(_, v any) bool {
		a := v.(*account)
		var idle bool
		if next, idle = a.tick(now, next); idle {
			l.forget(a)
		}
		return true
	})
	return next
}

func (l *Limiter) forget(a *account) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.asked || len(a.waiting) > 0 {
		return
	}
	a.end()
}

// end takes an account from where it is found. The caller holds mu.
func (a *account) end() {
	a.gone = true
	a.limiter.accounts.CompareAndDelete(a.owner.ID, a)
	p := a.plan.Load()
	for i := range p.rules {
		p.rules[i].each(func(s *scope) { s.gone = true })
	}
}

// exchange tells the store about an account's scopes, and lets the calls go on that waited for that, when
// the store answers or is late.
func (l *Limiter) exchange(ctx context.Context, a *account, isLate time.Duration) {
	scopes, asks, waiting := a.collect(l.now())
	if len(asks) > 0 {
		type result struct {
			answers []Answer
			err     error
		}
		done := make(chan result, 1)
		go func() {
			var r result
			r.err = recovery.Do("tenant limits", func() (err error) {
				r.answers, err = l.cfg.Store.Exchange(ctx, a.owner, asks)
				return err
			})
			done <- r
		}()
		late := time.NewTimer(max(isLate-l.now(), time.Millisecond))
		var r result
		select {
		case r = <-done:
		case <-late.C:
			a.standIn(scopes, asks)
			l.release(waiting)
			waiting = nil
			r = <-done
		}
		late.Stop()
		a.settle(scopes, asks, r.answers, r.err)
	}
	l.release(waiting)
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.asked = len(a.due) > 0 || len(a.waiting) > 0; a.asked {
		l.ask(a)
	}
}

// collect is what to say, and the calls that wait for the answer.
func (a *account) collect(now time.Duration) (scopes []*scope, asks []Ask, waiting []func()) {
	a.mu.Lock()
	defer a.mu.Unlock()
	n := min(len(a.due), MaxAsks)
	for _, s := range a.due[:n] {
		s.due.Store(false)
		if s.gone {
			continue
		}
		if ask := s.ask(now); ask.says() {
			scopes, asks = append(scopes, s), append(asks, ask)
			if ask.Spent > 0 {
				s.stood = 0 // it is told
			}
		}
	}
	a.due = append([]*scope(nil), a.due[n:]...)
	a.late = a.late && len(asks) > 0
	if len(a.due) == 0 { // else they wait for the last of them
		waiting, a.waiting = a.waiting, nil
	}
	return scopes, asks, waiting
}

// settle takes what the store answered, or the replica's own share where it did not.
func (a *account) settle(scopes []*scope, asks []Ask, answers []Answer, err error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	l := a.limiter
	now, late := l.now(), a.late
	a.late = false
	failed := err != nil || len(answers) != len(asks)
	for i, s := range scopes {
		if failed {
			l.counts.failed.Add(1)
			s.owed += asks[i].Spent // and not what was to be given back: it may have been
			if !late {
				a.own(s, &asks[i])
			}
			continue
		}
		got := &answers[i]
		if got.Calls < asks[i].Want || got.Places >= 0 && got.Places < asks[i].Keep+asks[i].Need {
			l.counts.denied.Add(1)
		} else {
			l.counts.granted.Add(1)
		}
		s.heard(got, now, l.replicas.Load())
		if late { // it covers what was given in its stead
			covered := min(s.stood, got.Calls)
			got.Calls, asks[i].Want, s.owed = got.Calls-covered, asks[i].Want-covered, max(s.owed-covered, 0)
			asks[i].Keep, asks[i].Need = s.held, max(asks[i].Keep+asks[i].Need-s.held, 0)
		}
		s.stood = 0
		s.take(&asks[i], got, now)
	}
}

// leave gives back all that no call has.
func (l *Limiter) leave(ctx context.Context) {
	l.accounts.Range(func(_, v any) bool {
		a := v.(*account)
		a.mu.Lock()
		p := a.plan.Load()
		for i := range p.rules {
			p.rules[i].each(func(s *scope) { s.leave() })
		}
		a.mu.Unlock()
		for more := true; more; {
			_, asks, waiting := a.collect(l.now())
			if len(asks) > 0 {
				_, _ = l.cfg.Store.Exchange(ctx, a.owner, asks) // else places expire
			}
			l.release(waiting)
			a.mu.Lock()
			more = len(a.due) > 0
			a.mu.Unlock()
		}
		return true
	})
}

// leave gives back what no call has. The caller holds the account's lock.
func (s *scope) leave() {
	s.of.waiting = append(s.of.waiting, s.patient...)
	s.patient = nil
	n := s.calls.drain(s.calls.left())
	s.in -= n
	if n > 0 {
		s.back += n
	}
	s.quiet, s.peak, s.before, s.yield = idleTicks, 0, 0, true
	if s.held > 0 || s.back > 0 || s.owed > 0 {
		s.of.touch(s)
	}
}
