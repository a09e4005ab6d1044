package cache

import (
	"context"
	"sync"

	"github.com/capgate/capgate/internal/lib/recovery"
)

// Flights shares the request of a key among the goroutines that want its result at the same time. The zero value is
// usable.
type Flights[K comparable, V any] struct {
	mu      sync.Mutex
	flights map[K]*flight[V]
}

type flight[V any] struct {
	done  chan struct{} // closed when value and err are set
	value V
	err   error
}

// Do waits for the result of load, or of a load for an equal key that has not ended, until ctx ends: then answered is
// false. load runs on a goroutine of its own, which does not end with ctx, and must end by itself.
func (f *Flights[K, V]) Do(ctx context.Context, key K, load func() (V, error)) (v V, answered bool, err error) {
	one := f.join(key, load)
	select {
	case <-one.done:
		return one.value, true, one.err
	case <-ctx.Done():
	}
	select {
	case <-one.done: // at the same moment
		return one.value, true, one.err
	default:
		return v, false, nil
	}
}

// join returns the flight of a key, and begins one if there is none.
func (f *Flights[K, V]) join(key K, load func() (V, error)) *flight[V] {
	f.mu.Lock()
	defer f.mu.Unlock()
	if one := f.flights[key]; one != nil {
		return one
	}
	one := &flight[V]{done: make(chan struct{})}
	if f.flights == nil {
		f.flights = map[K]*flight[V]{}
	}
	f.flights[key] = one
	go func() {
		one.err = recovery.Do("cache", func() (err error) {
			one.value, err = load()
			return err
		})
		f.mu.Lock()
		delete(f.flights, key)
		f.mu.Unlock()
		close(one.done)
	}()
	return one
}
