package semaphore

import (
	"context"
	"errors"
	"slices"
	"sync"
)

// ErrFull is returned when too many goroutines of a tenant wait.
var ErrFull = errors.New("too much of the tenant's work is waiting")

// Semaphore is a number of slots. It is safe for concurrent use.
type Semaphore struct {
	capacity   int // number of slots, at least 2
	maxWaiting int // how many goroutines of one tenant may wait

	mu      sync.Mutex
	held    int
	tenants map[string]*queue // tenants that hold a slot or wait for one
	waiting []*queue          // tenants that wait; the first one is next
}

// queue is the state of one tenant.
type queue struct {
	tenant  string
	held    int
	waiters []chan struct{} // one channel for each goroutine that waits; closed when it gets a slot
}

// New returns a Semaphore of capacity slots, at least 2. At most maxWaiting goroutines of one tenant may wait.
func New(capacity, maxWaiting int) *Semaphore {
	return &Semaphore{capacity: max(capacity, 2), maxWaiting: maxWaiting, tenants: map[string]*queue{}}
}

// Acquire waits for a slot until ctx ends. The error is ErrFull or that of ctx. The caller that gets a slot
// calls release once.
func (s *Semaphore) Acquire(ctx context.Context, tenant string) (release func(), err error) {
	q, granted, err := s.acquireOrQueue(tenant)
	if err != nil {
		return nil, err
	}
	release = func() { s.release(q) }
	if granted == nil {
		return release, nil
	}
	select {
	case <-granted:
		return release, nil
	case <-ctx.Done():
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if i := slices.Index(q.waiters, granted); i >= 0 {
		q.waiters = slices.Delete(q.waiters, i, i+1)
		s.forgetIdle(q)
	} else { // the slot was granted at the same moment
		s.releaseLocked(q)
	}
	return nil, ctx.Err()
}

// acquireOrQueue takes a slot, or returns the channel of a new waiter.
func (s *Semaphore) acquireOrQueue(tenant string) (q *queue, granted chan struct{}, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	q = s.tenants[tenant]
	if q == nil {
		q = &queue{tenant: tenant}
		s.tenants[tenant] = q
	}
	if len(q.waiters) == 0 && s.canAcquire(q) {
		s.grant(q)
		return q, nil, nil
	}
	if len(q.waiters) >= s.maxWaiting {
		s.forgetIdle(q)
		return nil, nil, ErrFull
	}
	if len(q.waiters) == 0 {
		s.waiting = append(s.waiting, q)
	}
	granted = make(chan struct{})
	q.waiters = append(q.waiters, granted)
	return q, granted, nil
}

// canAcquire reports whether a tenant may take one more slot. It need not look at waiters of other tenants,
// because each slot that is released is granted to the next waiter at once.
func (s *Semaphore) canAcquire(q *queue) bool { return s.held < s.capacity && q.held < s.capacity-1 }

func (s *Semaphore) grant(q *queue) {
	s.held++
	q.held++
}

func (s *Semaphore) release(q *queue) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.releaseLocked(q)
}

// releaseLocked returns a slot, and grants it to the next waiter.
func (s *Semaphore) releaseLocked(q *queue) {
	s.held--
	q.held--
	s.forgetIdle(q)
	for i, next := range s.waiting {
		if !s.canAcquire(next) {
			continue
		}
		granted := next.waiters[0]
		next.waiters = next.waiters[1:]
		s.grant(next)
		close(granted)
		s.waiting = slices.Delete(s.waiting, i, i+1)
		if len(next.waiters) > 0 {
			s.waiting = append(s.waiting, next) // behind all others
		}
		return
	}
}

// forgetIdle removes a tenant that neither holds a slot nor waits.
func (s *Semaphore) forgetIdle(q *queue) {
	if len(q.waiters) > 0 {
		return
	}
	if i := slices.Index(s.waiting, q); i >= 0 {
		s.waiting = slices.Delete(s.waiting, i, i+1)
	}
	if q.held == 0 {
		delete(s.tenants, q.tenant)
	}
}
