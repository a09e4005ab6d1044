package fairqueue

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"sync"
	"syscall"

	"github.com/capgate/capgate/internal/lib/recovery"
)

// ErrFull is returned when too many requests of a tenant wait.
var ErrFull = errors.New("too many requests of the tenant are waiting")

// Queue admits one request for each poll of the network by the Go runtime.
//
// The runtime polls when no goroutine can run, or every 10 ms. If each request began at once, goroutines whose sockets
// became readable would wait for all of them. The queue therefore writes to a pipe of its own, which the runtime polls
// with the sockets. An admitted request runs after all goroutines that were runnable before.
type Queue struct {
	maxWaiting int // how many requests of one tenant may wait
	r, w       *os.File
	done       sync.WaitGroup

	mu       sync.Mutex
	signaled bool                    // the pipe has a byte
	ready    []*tenantQueue          // queues with waiting requests; the first one is next
	tenants  map[string]*tenantQueue // the same queues by tenant
}

// tenantQueue holds the waiting requests of one tenant.
type tenantQueue struct {
	tenant  string
	resumed []*waiter // requests that were admitted before; they go first
	sources []*source // the others by client address; the first source is next
	waiting int       // requests of sources that have not left
}

// source holds the waiting requests of one client address.
type source struct {
	addr    string
	waiters []*waiter
	waiting int // requests that have not left
}

// waiter is one waiting request. Queue.mu guards it.
type waiter struct {
	admitted chan struct{} // closed when the request is admitted or evicted
	left     bool
	evicted  bool // by a request of another address
}

// New returns a Queue in which maxWaiting requests of one tenant may wait. The caller has to close it.
func New(most int) (*Queue, error) {
	r, w, err := os.Pipe()
	if err != nil {
		return nil, fmt.Errorf("fair queue: %w", err)
	}
	in, err := r.SyscallConn()
	if err != nil {
		_, _ = r.Close(), w.Close()
		return nil, fmt.Errorf("fair queue: %w", err)
	}
	q := &Queue{maxWaiting: most, r: r, w: w, tenants: map[string]*tenantQueue{}}
	q.done.Go(func() { _ = in.Read(q.dispatch) })
	return q, nil
}

// Close stops the queue. A request that still waits does so until its context ends.
func (q *Queue) Close() {
	_, _ = q.r.Close(), q.w.Close()
	q.done.Wait()
}

// Wait waits until a request of a tenant is admitted, or ctx ends. Client addresses take turns within their tenant.
// If too many requests wait, one of the address with the most requests is evicted. The error is ErrFull or that of ctx.
func (q *Queue) Wait(ctx context.Context, tenant, from string) error {
	q.mu.Lock()
	defer q.mu.Unlock()
	if l := q.tenants[tenant]; q.maxWaiting <= 0 || l != nil && l.waiting >= q.maxWaiting && !l.evict(from) {
		return ErrFull
	}
	l, w := q.queueOf(tenant), newWaiter()
	r := l.sourceOf(from)
	r.waiters = append(r.waiters, w)
	r.waiting++
	l.waiting++
	err := q.await(ctx, w)
	switch {
	case w.evicted:
		return ErrFull
	case w.left:
		r.waiting--
		l.waiting--
	}
	return err
}

// sourceOf returns the source of an address, and adds it if necessary.
func (l *tenantQueue) sourceOf(from string) *source {
	for _, r := range l.sources {
		if r.addr == from {
			return r
		}
	}
	r := &source{addr: from}
	l.sources = append(l.sources, r)
	return r
}

// evict evicts the last request of the address with the most requests, in favor of an address with far fewer.
func (l *tenantQueue) evict(from string) bool {
	var longest *source
	own := 0
	for _, r := range l.sources {
		if r.addr == from {
			own = r.waiting
		} else if longest == nil || r.waiting > longest.waiting {
			longest = r
		}
	}
	if longest == nil || longest.waiting < own+2 {
		return false
	}
	for _, w := range slices.Backward(longest.waiters) {
		if !w.left {
			w.left, w.evicted = true, true
			longest.waiting--
			l.waiting--
			close(w.admitted)
			return true
		}
	}
	return false
}

// WaitAgain is for a request that was admitted and then waited for something else. It precedes requests of its tenant
// that were not admitted yet.
func (q *Queue) WaitAgain(ctx context.Context, tenant string) error {
	q.mu.Lock()
	defer q.mu.Unlock()
	l, w := q.queueOf(tenant), newWaiter()
	l.resumed = append(l.resumed, w)
	return q.await(ctx, w)
}

func newWaiter() *waiter { return &waiter{admitted: make(chan struct{})} }

// queueOf returns a tenant's queue, and adds it if necessary. The caller holds the lock.
func (q *Queue) queueOf(tenant string) *tenantQueue {
	l := q.tenants[tenant]
	if l == nil {
		l = &tenantQueue{tenant: tenant}
		q.tenants[tenant] = l
		q.ready = append(q.ready, l)
	}
	return l
}

// await waits until w is admitted or ctx ends. The caller holds the lock, which await releases while it waits.
func (q *Queue) await(ctx context.Context, w *waiter) error {
	q.signal()
	q.mu.Unlock()
	var err error
	select {
	case <-w.admitted:
	case <-ctx.Done():
		err = ctx.Err()
	}
	q.mu.Lock()
	select {
	case <-w.admitted:
	default:
		w.left = true
	}
	return err
}

// signal makes the pipe readable if a request waits. The caller holds the lock.
func (q *Queue) signal() {
	if !q.signaled && len(q.ready) > 0 {
		_, err := q.w.Write([]byte{0})
		q.signaled = err == nil
	}
}

// dispatch admits one request. It returns false, so that the runtime polls the pipe again.
func (q *Queue) dispatch(fd uintptr) bool {
	defer recovery.Recover("fair queue")
	q.mu.Lock()
	defer q.mu.Unlock()
	var b [1]byte
	if n, err := syscall.Read(int(fd), b[:]); n == 0 || err != nil {
		return false // the pipe is empty
	}
	q.signaled = false
	for w := q.pop(); w != nil; w = q.pop() {
		if !w.left {
			close(w.admitted)
			break
		}
	}
	q.signal()
	return false
}

// pop removes and returns the next waiter; nil if there is none.
func (q *Queue) pop() (w *waiter) {
	if len(q.ready) == 0 {
		return nil
	}
	l := q.ready[0]
	q.ready = q.ready[1:]
	if len(l.resumed) > 0 {
		w, l.resumed = l.resumed[0], l.resumed[1:]
	} else {
		w = l.popSource()
	}
	if len(l.resumed)+len(l.sources) > 0 {
		q.ready = append(q.ready, l)
	} else {
		delete(q.tenants, l.tenant)
	}
	return w
}

// popSource removes and returns the next waiter that was not admitted before. Addresses take turns.
func (l *tenantQueue) popSource() (w *waiter) {
	r := l.sources[0]
	l.sources = l.sources[1:]
	if w, r.waiters = r.waiters[0], r.waiters[1:]; !w.left {
		r.waiting--
		l.waiting--
	}
	if len(r.waiters) > 0 {
		l.sources = append(l.sources, r)
	}
	return w
}
