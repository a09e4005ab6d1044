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

// lookup answers from memory what the store was asked before. What there is and what there is
// not are kept apart, so that nobody who asks for what there is not makes the other forgotten.
type lookup[V any] struct {
	*fresh
	find   func(ctx context.Context, id string) (*V, error) // nil: there is none
	there  *memory[*V]
	absent *memory[*V] // nil each
	asking singleflight.Group
	rate   *Bucket // of questions about ids of which nothing is known
	asked  atomic.Int64
}

// get answers from memory; nil is that there is none.
func (l *lookup[V]) get(id string) (v *V, known bool) {
	of := l.there
	a := of.get(id)
	if a == nil {
		of = l.absent
		a = of.get(id)
	}
	if a == nil || !l.stands(a.until, a.epoch != of.epoch.Load()) {
		return nil, false
	}
	return a.value, true
}

// ask waits for the store until ctx ends. Where that does not answer, what is known is taken.
func (l *lookup[V]) ask(ctx context.Context, id string) (*V, *call.Refusal) {
	if v, known := l.get(id); known {
		return v, nil
	}
	there, absent := l.there.now(id), l.absent.now(id)
	// Who asks after a change does not get what was asked for before it.
	flight := strconv.FormatUint(there.changes, 36) + " " + strconv.FormatUint(there.epoch, 36) + " " + id
	answer := l.asking.DoChan(flight, func() (any, error) { return l.fetch(id, there, absent) })
	select {
	case <-ctx.Done():
		return nil, refusedAway
	case r := <-answer:
		if r.Err == nil {
			v, _ := r.Val.(*V)
			return v, nil
		}
		if a := l.there.get(id); a != nil && l.bears() {
			return a.value, nil
		}
		var refusal *call.Refusal
		if errors.As(r.Err, &refusal) {
			return nil, refusal
		}
		return nil, refusedAway
	}
}

// fetch asks the store, and keeps what it says.
func (l *lookup[V]) fetch(id string, there, absent stamp) (*V, error) {
	if l.lost.Load() {
		return nil, errLost
	}
	if l.there.get(id) == nil && !l.rate.Take(time.Now()) {
		return nil, refusedTooMany
	}
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	l.asked.Add(1)
	v, err := l.find(ctx, id)
	switch {
	case err != nil:
		return nil, err
	case v == nil:
		l.absent.put(id, nil, l.end(), absent)
		l.there.drop(id)
	default:
		l.there.put(id, v, l.end(), there)
		l.absent.drop(id)
	}
	return v, nil
}

// forget has the next who asks for an id ask the store.
func (l *lookup[V]) forget(id string) {
	l.there.forget(id)
	l.absent.forget(id)
}

func (l *lookup[V]) doubt() {
	l.there.doubt()
	l.absent.doubt()
}

var errLost = errors.New("what was in the store is lost")
