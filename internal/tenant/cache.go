package tenant

import (
	"context"
	"errors"
	"strconv"
	"sync/atomic"
	"time"

	"golang.org/x/sync/singleflight"

	"github.com/capgate/capgate/internal/call"
)

// cache answers from memory what the store was asked before. What there is and what there is
// not are kept apart, so that nobody who asks for what there is not makes the other forgotten.
type cache[V any] struct {
	*freshness
	find     func(ctx context.Context, id string) (*V, error) // nil: there is none
	present  *memory[*V]
	absent   *memory[*V] // nil each
	asking   singleflight.Group
	bucket   *TokenBucket // of questions about ids of which nothing is known
	requests atomic.Int64
}

// get answers from memory; nil is that there is none.
func (l *cache[V]) lookup(id string) (v *V, known bool) {
	of := l.present
	a := of.get(id)
	if a == nil {
		of = l.absent
		a = of.get(id)
	}
	if a == nil || !l.valid(a.until, a.epoch != of.epoch.Load()) {
		return nil, false
	}
	return a.value, true
}

// fetch waits for the store until ctx ends. Where that does not answer, what is known is taken.
func (l *cache[V]) fetch(ctx context.Context, id string) (*V, *call.Refusal) {
	if v, known := l.lookup(id); known {
		return v, nil
	}
	there, absent := l.present.generation(id), l.absent.generation(id)
	// Who asks after a change does not get what was asked for before it.
	flight := strconv.FormatUint(there.shard, 36) + " " + strconv.FormatUint(there.epoch, 36) + " " + id
	answer := l.asking.DoChan(flight, func() (any, error) { return l.load(id, there, absent) })
	select {
	case <-ctx.Done():
		return nil, refusedUnavailable
	case r := <-answer:
		if r.Err == nil {
			v, _ := r.Val.(*V)
			return v, nil
		}
		if a := l.present.get(id); a != nil && l.usable() {
			return a.value, nil
		}
		var refusal *call.Refusal
		if errors.As(r.Err, &refusal) {
			return nil, refusal
		}
		return nil, refusedUnavailable
	}
}

// load asks the store, and keeps what it says.
func (l *cache[V]) load(id string, there, absent generation) (*V, error) {
	if l.storeLost.Load() {
		return nil, errStoreLost
	}
	if l.present.get(id) == nil && !l.bucket.Allow(time.Now()) {
		return nil, refusedTooMany
	}
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	l.requests.Add(1)
	v, err := l.find(ctx, id)
	switch {
	case err != nil:
		return nil, err
	case v == nil:
		l.absent.put(id, nil, l.expiry(), absent)
		l.present.drop(id)
	default:
		l.present.put(id, v, l.expiry(), there)
		l.absent.drop(id)
	}
	return v, nil
}

// forget has the next who asks for an id ask the store.
func (l *cache[V]) forget(id string) {
	l.present.forget(id)
	l.absent.forget(id)
}

func (l *cache[V]) invalidate() {
	l.present.invalidate()
	l.absent.invalidate()
}

var errStoreLost = errors.New("what was in the store is lost")
