package tenant

import (
	"context"
	"errors"
	"strings"
	"sync/atomic"
	"time"

	"github.com/capgate/capgate/internal/call"
	"github.com/capgate/capgate/internal/lib/cache"
	"github.com/capgate/capgate/internal/lib/tokenbucket"
)

// readCache answers from memory with earlier results of the store. Present and absent entries are kept apart, so
// that requests for unknown ids do not evict known ones.
type readCache[V any] struct {
	freshness *cache.Freshness
	find      func(ctx context.Context, id string) (*V, error) // loads an entry from the store; nil if there is none
	owner     func(*V) string                                  // tenant of an entry
	present   *cache.Cache[found[V]]
	absent    *cache.Cache[found[V]] // negative entries
	epoch     atomic.Uint64          // increases when all entries may have changed
	flights   cache.Flights[request, *V]
	bucket    *tokenbucket.Bucket // limits requests for unknown ids
	requests  atomic.Int64
}

// found is the answer of the store for an id.
type found[V any] struct {
	value *V     // nil if there is none
	epoch uint64 // of the request
}

// request identifies a request to the store: one after a change does not share the result of one before it.
type request struct {
	id      string
	there   cache.Stamp
	missing cache.Stamp
	epoch   uint64
}

// lookup answers from memory; nil: there is no such entry.
func (l *readCache[V]) lookup(id string) (v *V, known bool) {
	e := l.present.Get(id)
	if e == nil {
		e = l.absent.Get(id)
	}
	if e == nil || !l.valid(e) {
		return nil, false
	}
	return e.Value.value, true
}

// valid reports whether an entry may be used as it is. While the feed of changes works, an entry is invalid from the
// moment at which it may have changed.
func (l *readCache[V]) valid(e *cache.Entry[found[V]]) bool {
	until := e.Until
	if e.Value.epoch != l.epoch.Load() {
		until = -1 // before any time
	}
	return l.freshness.Valid(until)
}

// fetch waits for the store until ctx ends. If the store does not answer, a cached entry is used.
func (l *readCache[V]) fetch(ctx context.Context, id string) (*V, *call.Refusal) {
	if v, known := l.lookup(id); known {
		return v, nil
	}
	r := request{strings.Clone(id), l.present.Stamp(id), l.absent.Stamp(id), l.epoch.Load()}
	v, answered, err := l.flights.Do(ctx, r, func() (*V, error) { return l.load(r) })
	switch {
	case !answered:
		return nil, refusedUnavailable
	case err == nil:
		return v, nil
	}
	if e := l.present.Get(id); e != nil && l.freshness.Usable() {
		return e.Value.value, nil
	}
	var refusal *call.Refusal
	if errors.As(err, &refusal) {
		return nil, refusal
	}
	return nil, refusedUnavailable
}

// load queries the store, and caches the answer.
func (l *readCache[V]) load(r request) (*V, error) {
	if l.freshness.Lost() {
		return nil, errStoreLost
	}
	if l.present.Get(r.id) == nil && l.bucket.Take(time.Now()) > 0 {
		return nil, refusedTooMany
	}
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	l.requests.Add(1)
	v, err := l.find(ctx, r.id)
	if err != nil {
		return nil, err
	}
	e := cache.NewEntry[found[V]](r.id)
	if e != nil {
		e.Value, e.Until = found[V]{v, r.epoch}, l.freshness.Expiry()
	}
	if v == nil {
		l.absent.PutSince(r.missing, "", e)
		l.present.Remove(r.id)
	} else {
		l.present.PutSince(r.there, l.owner(v), e)
		l.absent.Remove(r.id)
	}
	return v, nil
}

// forget removes an entry, so that the next request queries the store.
func (l *readCache[V]) forget(id string) {
	l.present.Forget(id)
	l.absent.Forget(id)
}

// invalidate makes all entries expire: while the store is silent they are still valid.
func (l *readCache[V]) invalidate() { l.epoch.Add(1) }

func (l *readCache[V]) len() int { return l.present.Len() + l.absent.Len() }

var errStoreLost = errors.New("the store has lost its data")
