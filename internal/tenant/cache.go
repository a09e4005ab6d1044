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

// cache answers from memory with earlier results of the store. Present and absent entries are kept apart, so
// that requests for unknown ids do not evict known ones.
type cache[V any] struct {
	*freshness
	find     func(ctx context.Context, id string) (*V, error) // loads an entry from the store; nil: there is none
	present  *memory[*V]
	absent   *memory[*V] // negative entries
	asking   singleflight.Group
	bucket   *TokenBucket // limits requests for unknown ids
	requests atomic.Int64
}

// lookup answers from memory; nil: there is no such entry.
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

// fetch waits for the store until ctx ends. If the store does not answer, a cached entry is used.
func (l *cache[V]) fetch(ctx context.Context, id string) (*V, *call.Refusal) {
	if v, known := l.lookup(id); known {
		return v, nil
	}
	there, absent := l.present.generation(id), l.absent.generation(id)
	// A request after a change does not share the result of one before it.
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

// load asks the store, and caches the answer.
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

// forget removes an entry, so that the next request asks the store.
func (l *cache[V]) forget(id string) {
	l.present.forget(id)
	l.absent.forget(id)
}

func (l *cache[V]) invalidate() {
	l.present.invalidate()
	l.absent.invalidate()
}

var errStoreLost = errors.New("the store has lost its data")
