package semaphore

import (
	"context"
	"errors"
	"slices"
	"sync"
)

// ErrFull is the error when too many of a tenant wait.
var ErrFull = errors.New("too much work of the tenant waits")

// Semaphore is a number of places. It is safe for concurrent use.
type Semaphore struct {
	places  int // at least 2
	waiting int // how many of one tenant may wait

	mu    sync.Mutex
	used  int
	of    map[string]*queue // of tenants that have a place or wait for one
	order []*queue          // those that wait; the first one's turn is next
}

// queue is one tenant's.
type queue struct {
	tenant string
	used   int
	line   []chan struct{} // one for each that waits; closed when it has a place
}

// New makes a Semaphore of so many places, at least 2, for which so many of a tenant may wait.
func New(places, waiting int) *Semaphore {
	return &Semaphore{places: max(places, 2), waiting: waiting, of: map[string]*queue{}}
}

// Acquire waits for a place until ctx ends. The error is ErrFull or that of ctx. Whoever has
// got a place calls release once.
func (s *Semaphore) Acquire(ctx context.Context, tenant string) (release func(), err error) {
	q, place, err := s.enter(tenant)
	if err != nil {
		return nil, err
	}
	release = func() { s.release(q) }
	if place == nil {
		return release, nil
	}
	select {
	case <-place:
		return release, nil
	case <-ctx.Done():
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if i := slices.Index(q.line, place); i >= 0 {
		q.line = slices.Delete(q.line, i, i+1)
		s.tidy(q)
	} else { // it came at the same moment
		s.free(q)
	}
	return nil, ctx.Err()
}

// enter takes a place, or one in the line, which it returns.
func (s *Semaphore) enter(tenant string) (q *queue, place chan struct{}, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	q = s.of[tenant]
	if q == nil {
		q = &queue{tenant: tenant}
		s.of[tenant] = q
	}
	if len(q.line) == 0 && s.may(q) {
		s.take(q)
		return q, nil, nil
	}
	if len(q.line) >= s.waiting {
		s.tidy(q)
		return nil, nil, ErrFull
	}
	if len(q.line) == 0 {
		s.order = append(s.order, q)
	}
	place = make(chan struct{})
	q.line = append(q.line, place)
	return q, place, nil
}

// may says whether a tenant can have one more place. Whoever has to wait for others that wait
// already does so in order, as each place that gets free is handed on at once.
func (s *Semaphore) may(q *queue) bool { return s.used < s.places && q.used < s.places-1 }

func (s *Semaphore) take(q *queue) {
	s.used++
	q.used++
}

func (s *Semaphore) release(q *queue) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.free(q)
}

// free gives a place back, and on to the next.
func (s *Semaphore) free(q *queue) {
	s.used--
	q.used--
	s.tidy(q)
	for i, next := range s.order {
		if !s.may(next) {
			continue
		}
		place := next.line[0]
		next.line = next.line[1:]
		s.take(next)
		close(place)
		s.order = slices.Delete(s.order, i, i+1)
		if len(next.line) > 0 {
			s.order = append(s.order, next) // behind all others
		}
		return
	}
}

// tidy forgets a tenant that has nothing here.
func (s *Semaphore) tidy(q *queue) {
	if len(q.line) > 0 {
		return
	}
	if i := slices.Index(s.order, q); i >= 0 {
		s.order = slices.Delete(s.order, i, i+1)
	}
	if q.used == 0 {
		delete(s.of, q.tenant)
	}
}
