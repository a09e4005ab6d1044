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
func (r *Resolver) Resolve(q Query, done func(Answer)) {
	by := time.Now().Add(r.cfg.Wait)
	if q.OwnedOnly {
		by = by.Add((ownedWaitFactor - 1) * r.cfg.Wait)
	}
	r.mu.Lock()
	now := time.Now()
	_, known := r.artifactBackend(&q, now)
	if known || !r.storeUsable(now) || !r.acquirePermit() {
		r.mu.Unlock()
		// The answer may be known by now. done must not be called on this goroutine.
		go recovery.Round("affinity", func() { r.resolveSession(q, by, done) })
		return
	}
	r.mu.Unlock()
	var asked atomic.Bool
	r.run(by, func(ctx context.Context) error { return r.lookUpArtifacts(ctx, &q, &asked) }, func(error) {
		q := q // the query may still be using q
		q.storeAnswered = asked.Load()
		r.resolveSession(q, by, done)
	})
}

// resolveSession is Resolve after the lookup of the call's artifacts.
func (r *Resolver) resolveSession(q Query, by time.Time, done func(Answer)) {
	r.mu.Lock()
	now := time.Now()
	if refusal := r.checkOwnership(&q, now); refusal != nil {
		r.mu.Unlock()
		done(Answer{Refusal: refusal})
		return
	}
	holder, _ := r.artifactBackend(&q, now)
	a, known := r.lookup(&q, holder, now, r.storeUsable(now))
	if known {
		r.mu.Unlock()
		done(a)
		return
	}
	name := q.session()
	if f := r.flights[name]; f != nil {
		f.waiting = append(f.waiting, waiter{q, holder, done})
		r.mu.Unlock()
		return
	}
	p, _ := r.sessions.Peek(name)
	if !r.acquirePermit() {
		a = r.decideLocally(&q, p, holder)
		r.mu.Unlock()
		done(a)
		return
	}
	r.flights[name] = &flight{}
	st := p.nextTransition(&q, holder)
	r.mu.Unlock()
	var s outcome
	r.run(by, func(ctx context.Context) error {
		found, err := r.queryStore(ctx, &q, p, st, holder)
		if err == nil {
			s = found
		}
		return err
	}, func(err error) {
		var answer outcome
		if err == nil { // else the query may still be writing s
			answer = s
		}
		r.complete(&q, answer, err, holder, done)
	})
}

// complete completes a flight. Only the call that began it may report a lost session. Calls that
// waited query the store again, which registers this gateway as a user of the new pin.
func (r *Resolver) complete(q *Query, s outcome, err error, holder *router.Backend, done func(Answer)) {
	r.mu.Lock()
	var a Answer
	if err != nil {
		a, _ = r.lookup(q, holder, time.Now(), false)
	} else {
		a = r.applyOutcome(q, s, holder)
	}
	name := q.session()
	f := r.flights[name]
	delete(r.flights, name)
	r.mu.Unlock()
	done(a)
	for _, w := range f.waiting {
		if err == nil && s.lost {
			r.resolveSession(w.query, time.Now().Add(r.cfg.Wait), w.done)
			continue
		}
		r.mu.Lock()
		other, _ := r.lookup(&w.query, w.holder, time.Now(), false)
		r.mu.Unlock()
		w.done(other)
	}
}

// acquirePermit acquires one of the concurrent store queries. The caller holds mu.
func (r *Resolver) acquirePermit() bool {
	if r.closed {
		return false
	}
	select {
	case r.permits <- struct{}{}:
		r.inFlight.Add(1)
		return true
	default:
		return false
	}
}

// run queries the store with the permit that the caller acquired. It calls then with the result, or
// when the time is over. A store that ignores its context keeps the permit until it answers.
func (r *Resolver) run(by time.Time, query func(context.Context) error, then func(error)) {
	ctx, cancel := context.WithDeadline(context.Background(), by)
	answer := make(chan error, 1)
	go func() {
		defer func() { <-r.permits }()
		answer <- recovery.Do("affinity", func() error { return query(ctx) })
	}()
	go func() {
		defer r.inFlight.Done()
		defer cancel()
		var err error
		select {
		case err = <-answer:
		case <-ctx.Done():
			err = ctx.Err()
		}
		r.onResult(err)
		recovery.Round("affinity", func() { then(err) })
	}()
}

// breaker is a circuit breaker: calls stop waiting for a store that does not answer in time.
type breaker struct {
	failures  int // consecutive failures
	openUntil time.Time
}

const (
	breakerThreshold = 3
	breakerOpenFor   = time.Second
)

// onResult updates the circuit breaker.
func (r *Resolver) onResult(err error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	switch {
	case err == nil:
		r.breaker.failures = 0
		return
	case errors.Is(err, context.DeadlineExceeded):
		r.timeouts.Add(1)
	default:
		r.failures.Add(1)
	}
	if r.breaker.failures++; r.breaker.failures >= breakerThreshold {
		r.breaker.openUntil = time.Now().Add(breakerOpenFor)
	}
}

// storeUsable reports whether calls may wait for the store. The caller holds mu.
func (r *Resolver) storeUsable(now time.Time) bool {
	return r.store != nil && !r.closed && !now.Before(r.breaker.openUntil) && !r.store.Unavailable()
}
