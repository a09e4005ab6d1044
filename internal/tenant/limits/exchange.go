package limits

import (
	"context"
	"sync"
	"sync/atomic"
	"time"
)

// exchanges are what became of exchanges, by scope.
type exchanges struct{ granted, denied, ownShare, failed atomic.Int64 }

// Stats is what became of questions to the store. It only grows.
type Stats struct{ Granted, Denied, OwnShare, Failed int64 }

// Stats may be called from any goroutine.
func (l *Limiter) Stats() Stats {
	return Stats{l.counts.granted.Load(), l.counts.denied.Load(), l.counts.ownShare.Load(), l.counts.failed.Load()}
}

// Wait has resume called, from another goroutine, when it is time to Take again.
func (l *Limiter) Wait(p *Permit, resume func()) {
	s := p.missing
	p.missing = nil
	p.rounds++
	l.waiting.Add(1)
	a := s.of
	a.mu.Lock()
	defer a.mu.Unlock()
	s.want(p.place)
	if a.late {
		l.stand(s)
		l.resume(resume)
		return
	}
	a.waiting = append(a.waiting, resume)
	a.touch(s)
}

// want takes note that a call waits. The caller holds the account's lock.
func (s *scope) want(place bool) {
	if !place {
		s.need++
	}
	if place || s.bounds.Load().Concurrent > 0 && s.places.left() <= 0 {
		s.wanting++
	}
}

// want asks for what a call of shadow mode would have waited for.
func (l *Limiter) want(a *account, s *scope, place bool) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if place && s.wanting == 0 || !place && s.need == 0 { // one asks for all of them
		s.want(place)
	}
	a.touch(s)
}

// poke has the store asked for more, before all is used up.
func (l *Limiter) poke(s *scope) {
	if s.due.Load() {
		return
	}
	s.of.mu.Lock()
	defer s.of.mu.Unlock()
	s.of.touch(s)
}

// ask puts an account among those that are due.
func (l *Limiter) ask(a *account) {
	l.mu.Lock()
	l.due = append(l.due, a)
	l.mu.Unlock()
	l.nudge()
}

// resume lets a call go on from the Limiter's own goroutine: whoever decides so may hold a lock of it.
func (l *Limiter) resume(f func()) {
	l.mu.Lock()
	l.goOn = append(l.goOn, f)
	l.mu.Unlock()
	l.nudge()
}

func (l *Limiter) nudge() {
	select {
	case l.wake <- struct{}{}:
	default:
	}
}

// Run works until ctx ends, and then gives back what no call has.
func (l *Limiter) Run(ctx context.Context) {
	var running sync.WaitGroup
	defer running.Wait()
	asking, stop := context.WithCancel(context.WithoutCancel(ctx))
	defer stop()
	next := l.now() + tickEvery
	timer := time.NewTimer(tickEvery)
	defer timer.Stop()
	for ctx.Err() == nil {
		l.start(asking, &running)
		select {
		case <-ctx.Done():
		case <-l.wake:
		case <-timer.C:
			if l.now() >= next {
				next = l.tick()
			}
			timer.Reset(max(next-l.now(), time.Millisecond))
		}
	}
	l.leave(asking)
}

// start resumes the calls that may go on, and begins the exchanges that are due, as many as may be under way.
func (l *Limiter) start(ctx context.Context, running *sync.WaitGroup) {
	l.mu.Lock()
	goOn := l.goOn
	l.goOn = nil
	for len(l.due) > 0 && l.busy < maxExchanges {
		a := l.due[0]
		l.due = l.due[1:]
		l.busy++
		running.Go(func() {
			l.exchange(ctx, a)
			l.mu.Lock()
			l.busy--
			l.mu.Unlock()
			l.nudge()
		})
	}
	l.mu.Unlock()
	l.release(goOn)
}

func (l *Limiter) release(waiting []func()) {
	l.waiting.Add(-int64(len(waiting)))
	for _, f := range waiting {
		f()
	}
}

// tick returns when the next is due.
func (l *Limiter) tick() (next time.Duration) {
	if l.cfg.Replicas != nil {
		if n := l.cfg.Replicas(); n > 0 {
			l.replicas.Store(int64(n))
		}
	}
	now := l.now()
	next = now + tickEvery
	l.accounts.Range(func(id, v any) bool {
		a := v.(*account)
		var idle bool
		if next, idle = a.tick(now, next); idle {
			l.forget(id.(string), a)
		}
		return true
	})
	return next
}

func (l *Limiter) forget(id string, a *account) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.asked || len(a.waiting) > 0 {
		return
	}
	a.gone = true
	l.accounts.CompareAndDelete(id, a)
	p := a.plan.Load()
	for i := range p.rules {
		p.rules[i].each(func(s *scope) { s.gone = true })
	}
}

// exchange tells the store about an account's scopes, and lets the calls go on that waited for that.
func (l *Limiter) exchange(ctx context.Context, a *account) {
	scopes, asks, waiting := a.collect(l.now())
	if len(asks) > 0 {
		type result struct {
			answers []Answer
			err     error
		}
		done := make(chan result, 1)
		go func() {
			answers, err := l.cfg.Store.Exchange(ctx, a.tenant, asks)
			done <- result{answers, err}
		}()
		late := time.NewTimer(patience)
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
		}
	}
	a.due = append([]*scope(nil), a.due[n:]...)
	if len(a.due) == 0 { // else they wait for the last of them
		waiting, a.waiting = a.waiting, nil
	}
	return scopes, asks, waiting
}

// standIn answers for a store that is late, what it has not answered and what is asked meanwhile.
func (a *account) standIn(scopes []*scope, asks []Ask) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.late = true
	for i, s := range scopes {
		a.own(s, &asks[i])
	}
	for _, resume := range a.waiting {
		a.limiter.resume(resume)
	}
	a.waiting = nil
}

// own answers one ask by the replica's share.
func (a *account) own(s *scope, asked *Ask) {
	l := a.limiter
	l.counts.ownShare.Add(1)
	got := s.share(asked, l.now(), l.replicas.Load())
	s.stood += got.Calls
	s.take(asked, &got, l.now())
}

// stand is own for a call that comes while the store is late.
func (l *Limiter) stand(s *scope) {
	if s.denied(false, 0) != nil && s.wanting == 0 {
		s.need = 0
		return
	}
	asked := s.ask(l.now())
	back, owed := asked.Back, asked.Spent
	s.of.own(s, &asked)
	s.back, s.owed = s.back+back, s.owed+owed
	s.of.touch(s)
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
				_, _ = l.cfg.Store.Exchange(ctx, a.tenant, asks) // else places expire
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
