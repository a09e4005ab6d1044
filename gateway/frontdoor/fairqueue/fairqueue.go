package fairqueue

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"sync"
	"sync/atomic"
	"syscall"

	"github.com/capgate/capgate/internal/lib/recovery"
)

// ErrFull is returned when too many requests of a tenant wait.
var ErrFull = errors.New("too many requests of the tenant are waiting")

const (
	// batch is the number of requests that begin in one turn. A turn costs a write, a read and a poll, as much as a
	// good part of a short request; but what the network brings meanwhile waits behind a batch.
	batch = 4
	// soleBatch is batch while all requests are of one tenant, so that no other tenant waits behind them. The calls of
	// a batch also leave in one write to their backend, and their responses to one connection in another one.
	soleBatch = 16
	// politeTurns is the number of turns with a single request, after a call arrived that does not pass the queue, and
	// how many have batch after requests of two tenants.
	politeTurns = 1000
	// singleTurns is the number of turns with a single request, after one had to wait behind the backlog of another
	// tenant.
	singleTurns = 300
	// backlog is the number of waiting requests from which on a tenant sends more than the process serves.
	backlog = 2 * batch
)

// Queue admits a batch of requests for each poll of the network by the Go runtime. A poll begins a turn.
//
// The runtime polls when no goroutine can run, or every 10 ms. If each request began at once, goroutines whose sockets
// became readable would wait for all of them. The queue therefore writes to a pipe of its own, which the runtime polls
// with the sockets. A request that waited for a turn runs after all goroutines that were runnable before.
type Queue struct {
	maxWaiting int // how many requests of one tenant may wait
	r, w       *os.File
	done       sync.WaitGroup
	hurry      func()        // see OnSparse; nil means none
	turn       atomic.Uint64 // the turn's number; set with the lock held
	arrived    atomic.Bool   // a call that does not pass the queue, since the turn began

	mu       sync.Mutex
	left     int                     // how many more requests may begin in this turn; 0 if some wait
	polite   int                     // turns that have a single request, which waits again for its body
	single   int                     // turns that have a single request
	flooded  int                     // turns until the last backlog of a tenant is forgotten
	shared   int                     // turns that have no more than batch
	last     string                  // the tenant of the last request
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
	q := &Queue{maxWaiting: most, r: r, w: w, left: soleBatch, tenants: map[string]*tenantQueue{}}
	q.turn.Store(1)
	q.done.Go(func() { _ = in.Read(q.dispatch) })
	return q, nil
}

// OnSparse sets a function that is called for each request of a tenant without other waiting requests. It must be set
// before the first request, and must not block.
func (q *Queue) OnSparse(f func()) { q.hurry = f }

// Close stops the queue. A request that still waits does so until its context ends.
func (q *Queue) Close() {
	_, _ = q.r.Close(), q.w.Close()
	q.done.Wait()
}

// Wait waits until a request of a tenant is admitted, or ctx ends. Client addresses take turns within their tenant.
// If too many requests wait, one of the address with the most requests is evicted. The error is ErrFull or that of ctx.
func (q *Queue) Wait(ctx context.Context, tenant, from string) error {
	_, err := q.wait(ctx, tenant, from)
	return err
}

// wait is Wait; it returns the turn in which the request may go on, or 0 if it has to wait again.
func (q *Queue) wait(ctx context.Context, tenant, from string) (turn uint64, err error) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.maxWaiting <= 0 {
		return 0, ErrFull
	}
	q.note(tenant)
	if q.hurry != nil && q.tenants[tenant] == nil {
		q.hurry()
	}
	if q.left > 0 {
		q.left--
		return q.shown(), ctx.Err()
	}
	if l := q.tenants[tenant]; l != nil && l.waiting >= q.maxWaiting && !l.evict(from) {
		return 0, ErrFull
	}
	l, w := q.queueOf(tenant), waiters.Get().(*waiter)
	r := l.sourceOf(from)
	r.waiters = append(r.waiters, w)
	r.waiting++
	l.waiting++
	defer w.free()
	err = q.await(ctx, w)
	switch {
	case w.evicted:
		return 0, ErrFull
	case w.left:
		r.waiting--
		l.waiting--
	}
	return w.turn, err
}

// note records whose request is here. The caller holds the lock.
func (q *Queue) note(tenant string) {
	if tenant != q.last {
		q.last, q.shared, q.left = tenant, politeTurns, min(q.left, batch)
	}
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
			w.left, w.evicted, w.over = true, true, true
			longest.waiting--
			l.waiting--
			w.wake()
			return true
		}
	}
	return false
}

// WaitAgain is for a request that was admitted and then waited for something else. It precedes requests of its tenant
// that were not admitted yet.
func (q *Queue) WaitAgain(ctx context.Context, tenant string) error {
	_, err := q.waitAgain(ctx, tenant)
	return err
}

// waitAgain is WaitAgain; it returns what wait does.
func (q *Queue) waitAgain(ctx context.Context, tenant string) (turn uint64, err error) {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.note(tenant)
	if q.left > 0 {
		q.left--
		return q.shown(), ctx.Err()
	}
	l, w := q.queueOf(tenant), waiters.Get().(*waiter)
	l.resumed = append(l.resumed, w)
	defer w.free()
	err = q.await(ctx, w)
	return w.turn, err
}

// queueOf returns a tenant's queue, and adds it if necessary. The caller holds the lock.
func (q *Queue) queueOf(tenant string) *tenantQueue {
	l := q.tenants[tenant]
	if l == nil {
		if q.flooded > 0 && len(q.ready) > 0 {
			q.single = singleTurns
		}
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
	ended := w.wait(ctx)
	q.mu.Lock()
	if !ended {
		return nil
	}
	if w.kept = true; !w.over {
		w.left = true
	}
	return ctx.Err()
}

// signal begins another turn soon if a request waits. The caller holds the lock.
func (q *Queue) signal() {
	if !q.signaled && len(q.ready) > 0 {
		_, err := q.w.Write([]byte{0})
		q.signaled = err == nil
	}
}

// dispatch begins a turn. It returns false, so that the runtime polls the pipe again.
func (q *Queue) dispatch(fd uintptr) bool {
	defer recovery.Recover("fair queue")
	q.mu.Lock()
	defer q.mu.Unlock()
	var b [1]byte
	if n, err := syscall.Read(int(fd), b[:]); n == 0 || err != nil {
		return false // the pipe is empty
	}
	q.signaled = false
	q.turn.Add(1)
	for q.left = q.size(); q.left > 0; {
		w := q.pop()
		if w == nil {
			break
		}
		if !w.left {
			w.admit(q.shown())
			q.left--
		}
	}
	q.signal()
	return false
}

// size returns how many requests begin in the turn. The caller holds the lock.
func (q *Queue) size() int {
	switch {
	case q.arrived.Load():
		q.arrived.Store(false)
		q.polite = politeTurns
	case q.polite > 0:
		q.polite--
	}
	if q.single > 0 {
		q.single--
		return 1
	}
	sole := q.shared == 0
	q.shared, q.flooded = max(q.shared-1, 0), max(q.flooded-1, 0)
	switch {
	case q.polite > 0:
		return 1
	case sole:
		return soleBatch
	}
	return batch
}

// shown returns the number of the turn, or 0 while calls arrive that do not pass the queue. The caller holds the lock.
func (q *Queue) shown() uint64 {
	if q.polite > 0 {
		return 0
	}
	return q.turn.Load()
}

// CallArrived records that a call arrived that does not pass the queue. Such calls are short, and wait for polls: for
// a while a single request begins in each turn, and waits again for all of its body.
func (q *Queue) CallArrived() {
	if !q.arrived.Load() { // most calls do not write to memory that all processors share
		q.arrived.Store(true)
	}
}

// pop removes and returns the next waiter; nil if there is none.
func (q *Queue) pop() (w *waiter) {
	if len(q.ready) == 0 {
		return nil
	}
	l := q.ready[0]
	if l.waiting >= backlog {
		q.flooded = politeTurns
	}
	if len(l.resumed) > 0 {
		w, l.resumed = l.resumed[0], l.resumed[1:]
	} else {
		w = l.popSource()
	}
	again := len(l.resumed)+len(l.sources) > 0
	if !again {
		delete(q.tenants, l.tenant)
	}
	q.ready = rotate(q.ready, again)
	return w
}

// popSource removes and returns the next waiter that was not admitted before. Addresses take turns.
func (l *tenantQueue) popSource() (w *waiter) {
	r := l.sources[0]
	if w, r.waiters = r.waiters[0], r.waiters[1:]; !w.left {
		r.waiting--
		l.waiting--
	}
	l.sources = rotate(l.sources, len(r.waiters) > 0)
	return w
}

// rotate removes the first of all, which becomes the last one if it goes on.
func rotate[T any](all []T, again bool) []T {
	switch first := all[0]; {
	case !again:
		return all[1:]
	case len(all) == 1: // takes no memory
		return all
	default:
		return append(all[1:], first)
	}
}
