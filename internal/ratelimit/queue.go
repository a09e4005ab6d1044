package ratelimit

import (
	"context"
	"math"
	"slices"
	"sync"
	"time"

	"github.com/capgate/capgate/internal/lib/recovery"
)

// queue are the accounts that are due, in the order in which they became so.
type queue struct {
	all  []turn
	late int // how many of the first are late
}

// turn is an account's in the queue.
type turn struct {
	*account
	isLate time.Duration // when the store is, with what it is asked
}

func (q *queue) push(a *account, isLate time.Duration) { q.all = append(q.all, turn{a, isLate}) }

func (q *queue) pop() turn {
	next := q.all[0]
	q.all[0] = turn{}
	q.all, q.late = q.all[1:], max(q.late-1, 0)
	return next
}

// overdue are those that are late since the last time, and when the next is.
func (q *queue) overdue(now time.Duration) (late []turn, next time.Duration) {
	from := q.late
	for ; q.late < len(q.all); q.late++ {
		if next = q.all[q.late].isLate; next > now {
			return slices.Clone(q.all[from:q.late]), next
		}
	}
	return slices.Clone(q.all[from:]), math.MaxInt64
}

// Wait has resume called, from another goroutine, when it is time to Take again.
func (l *Limiter) Wait(p *Permit, resume func()) {
	s := p.missing
	p.missing = nil
	l.waiting.Add(1)
	a := s.of
	a.mu.Lock()
	defer a.mu.Unlock()
	if p.place && s.softStart.Active(l.now()) && !a.late {
		s.patient = append(s.patient, resume)
		return
	}
	p.rounds++
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
	l.due.push(a, l.now()+patience)
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

// start resumes the calls that may go on, and begins the exchanges that are due, as many as may be under way. Of
// accounts that have waited too long for one it says that the store is late. It returns when that is so next.
func (l *Limiter) start(ctx context.Context, running *sync.WaitGroup) (impatient time.Duration) {
	l.mu.Lock()
	goOn := l.goOn
	l.goOn = nil
	for len(l.due.all) > 0 && l.busy < maxExchanges {
		next := l.due.pop()
		l.busy++
		running.Go(func() {
			recovery.Round("tenant limits", func() { l.exchange(ctx, next.account, next.isLate) })
			l.mu.Lock()
			l.busy--
			l.mu.Unlock()
			l.nudge()
		})
	}
	late, impatient := l.due.overdue(l.now())
	l.mu.Unlock()
	for _, t := range late {
		goOn = append(goOn, t.standInUnasked()...)
	}
	l.release(goOn)
	return impatient
}

func (l *Limiter) release(waiting []func()) {
	l.waiting.Add(-int64(len(waiting)))
	for _, f := range waiting {
		f()
	}
}
