package broadcast

import (
	"sync"

	"github.com/capgate/capgate/internal/lib/signal"
)

// Feed passes values on to all its readers. A reader that is too slow misses values, and learns that it has. The zero
// value is usable. It is safe for concurrent use.
type Feed[T any] struct {
	mu      sync.Mutex
	readers map[*Reader[T]]struct{}
}

// Reader receives the values of a Feed.
type Reader[T any] struct {
	Values <-chan T        // not closed; readers share what a T refers to
	Missed <-chan struct{} // signals that values may be missing

	values  chan T
	missed  chan struct{}
	selects func(T) bool
}

// Join adds a reader, with room for so many values that it has not read. It receives those for which selects returns
// true; if selects is nil, all. The function must not use the Feed. The reader must leave.
func (f *Feed[T]) Join(room int, selects func(T) bool) *Reader[T] {
	r := &Reader[T]{values: make(chan T, room), missed: make(chan struct{}, 1), selects: selects}
	r.Values, r.Missed = r.values, r.missed
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.readers == nil {
		f.readers = map[*Reader[T]]struct{}{}
	}
	f.readers[r] = struct{}{}
	return r
}

// Leave removes a reader.
func (f *Feed[T]) Leave(r *Reader[T]) {
	f.mu.Lock()
	defer f.mu.Unlock()
	delete(f.readers, r)
}

// Readers returns the number of readers.
func (f *Feed[T]) Readers() int {
	f.mu.Lock()
	defer f.mu.Unlock()
	return len(f.readers)
}

// Send passes a value on to the readers that select it. It does not block.
func (f *Feed[T]) Send(v T) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for r := range f.readers {
		if r.selects != nil && !r.selects(v) {
			continue
		}
		select {
		case r.values <- v:
		default:
			signal.Wake(r.missed)
		}
	}
}

// Miss notifies all readers that values may be missing.
func (f *Feed[T]) Miss() {
	f.mu.Lock()
	defer f.mu.Unlock()
	for r := range f.readers {
		signal.Wake(r.missed)
	}
}
