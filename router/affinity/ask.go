package affinity

import (
	"context"
	"errors"
	"sync/atomic"
	"time"

	"github.com/capgate/capgate/internal/lib/recovery"
	"github.com/capgate/capgate/router"
)

// flight is a query to the store about one session, with the calls that wait for its result.
type flight struct{ waiting []waiter }

type waiter struct {
	query  Query
	holder *router.Backend
	done   func(Answer)
}

// Resolve finds what Lookup did not know, and calls done with it on another goroutine than the
// caller's, which may hold locks that done needs. It takes at most Config.Wait, ten times that if q
// is OwnedOnly, and once more that after each loss of the session meanwhile. q must own its strings.
func (k *Keeper) Ask(q Query, done func(Answer)) {
	by := time.Now().Add(k.cfg.Wait)
	if q.Bound {
		by = by.Add((mustKnow - 1) * k.cfg.Wait)
	}
	k.mu.Lock()
	now := time.Now()
	_, known := k.holder(&q, now)
	if known || !k.askable(now) || !k.slot() {
		k.mu.Unlock()
		// The answer may be known by now. done must not be called on this goroutine.
		go recovery.Round("affinity", func() { k.askSession(q, by, done) })
		return
	}
	k.mu.Unlock()
	var asked atomic.Bool
	k.do(by, func(ctx context.Context) error { return k.lookUp(ctx, &q, &asked) }, func(error) {
		q := q // the query may still be using q
		q.asked = asked.Load()
		k.askSession(q, by, done)
	})
}

// resolveSession is Resolve after the lookup of the call's artifacts.
func (k *Keeper) askSession(q Query, by time.Time, done func(Answer)) {
	k.mu.Lock()
	now := time.Now()
	if refusal := k.missing(&q, now); refusal != nil {
		k.mu.Unlock()
		done(Answer{Refusal: refusal})
		return
	}
	holder, _ := k.holder(&q, now)
	a, known := k.find(&q, holder, now, k.askable(now))
	if known {
		k.mu.Unlock()
		done(a)
		return
	}
	name := q.session()
	if f := k.flights[name]; f != nil {
		f.waiting = append(f.waiting, waiter{q, holder, done})
		k.mu.Unlock()
		return
	}
	p, _ := k.sessions.Peek(name)
	if !k.slot() {
		a = k.decide(&q, p, holder)
		k.mu.Unlock()
		done(a)
		return
	}
	k.flights[name] = &flight{}
	st := p.next(&q, holder)
	k.mu.Unlock()
	var s settled
	k.do(by, func(ctx context.Context) error {
		found, err := k.consult(ctx, &q, p, st, holder)
		if err == nil {
			s = found
		}
		return err
	}, func(err error) {
		var answer settled
		if err == nil { // else the query may still be writing s
			answer = s
		}
		k.land(&q, answer, err, holder, done)
	})
}

// land completes a flight. Only the call that began it may be told of a lost session. Those
// that waited query the store again, so that it registers this gateway as a user of the new pin.
func (k *Keeper) land(q *Query, s settled, err error, holder *router.Backend, done func(Answer)) {
	k.mu.Lock()
	var a Answer
	if err != nil {
		a, _ = k.find(q, holder, time.Now(), false)
	} else {
		a = k.settle(q, s, holder)
	}
	name := q.session()
	f := k.flights[name]
	delete(k.flights, name)
	k.mu.Unlock()
	done(a)
	for _, w := range f.waiting {
		if err == nil && s.lost {
			k.askSession(w.query, time.Now().Add(k.cfg.Wait), w.done)
			continue
		}
		k.mu.Lock()
		other, _ := k.find(&w.query, w.holder, time.Now(), false)
		k.mu.Unlock()
		w.done(other)
	}
}

// slot acquires one of the concurrent store queries. The caller holds mu.
func (k *Keeper) slot() bool {
	if k.closed {
		return false
	}
	select {
	case k.slots <- struct{}{}:
		k.asking.Add(1)
		return true
	default:
		return false
	}
}

// run queries the store with the permit that the caller acquired. It calls then with the result, or
// when the time is over. A store that ignores its context keeps the permit until it answers.
func (k *Keeper) do(by time.Time, query func(context.Context) error, then func(error)) {
	ctx, cancel := context.WithDeadline(context.Background(), by)
	answer := make(chan error, 1)
	go func() {
		defer func() { <-k.slots }()
		answer <- recovery.Do("affinity", func() error { return query(ctx) })
	}()
	go func() {
		defer k.asking.Done()
		defer cancel()
		var err error
		select {
		case err = <-answer:
		case <-ctx.Done():
			err = ctx.Err()
		}
		k.heard(err)
		recovery.Round("affinity", func() { then(err) })
	}()
}

// muting is a circuit breaker: calls stop waiting for a store that does not answer in time.
type muting struct {
	missed int // consecutive failures
	until  time.Time
}

const (
	missesToMute = 3
	muteFor      = time.Second
)

// onResult updates the circuit breaker.
func (k *Keeper) heard(err error) {
	k.mu.Lock()
	defer k.mu.Unlock()
	switch {
	case err == nil:
		k.mute.missed = 0
		return
	case errors.Is(err, context.DeadlineExceeded):
		k.timeouts.Add(1)
	default:
		k.failures.Add(1)
	}
	if k.mute.missed++; k.mute.missed >= missesToMute {
		k.mute.until = time.Now().Add(muteFor)
	}
}

// askable reports whether calls may wait for the store. The caller holds mu.
func (k *Keeper) askable(now time.Time) bool {
	return k.store != nil && !k.closed && !now.Before(k.mute.until) && !k.store.Away()
}
