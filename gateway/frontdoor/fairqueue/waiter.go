package fairqueue

import (
	"context"
	"sync"
)

// Waiter is a request that waits.
type Waiter interface {
	// Interrupt ends the wait, because the context has ended. It is called at most once, on another goroutine, and
	// possibly after the wait.
	Interrupt()
}

// interrupter is a context whose end interrupts a Waiter. A select on Done would cost more.
type interrupter interface {
	// WaitIn sets the Waiter. It returns false if the caller must wait for Done instead.
	WaitIn(Waiter) bool
	// EndWait ends the wait. It reports whether the Waiter was interrupted, or may still be.
	EndWait() bool
}

// waiter is one waiting request. Queue.mu guards it.
type waiter struct {
	admitted chan struct{} // gets a value when the request is admitted or evicted
	turn     uint64        // that wait returns
	left     bool
	evicted  bool // by a request of another address
	over     bool // admitted or evicted
	kept     bool // the context ended meanwhile, so it is not used again
}

// waiters holds waiters that have left their queue, for reuse.
//
//nolint:gochecknoglobals // memory, shared by all queues
var waiters = sync.Pool{New: func() any { return &waiter{admitted: make(chan struct{}, 1)} }}

// wait waits until w is admitted or evicted, or ctx ends. It reports whether ctx has ended.
func (w *waiter) wait(ctx context.Context) (ended bool) {
	if in, ok := ctx.(interrupter); ok && in.WaitIn(w) {
		<-w.admitted
		return in.EndWait()
	}
	select {
	case <-w.admitted:
		return false
	case <-ctx.Done():
		return true
	}
}

// admit admits the request in a turn. The caller holds the lock.
func (w *waiter) admit(turn uint64) {
	w.turn, w.over = turn, true
	w.wake()
}

// Interrupt implements Waiter.
func (w *waiter) Interrupt() { w.wake() }

// wake ends the wait. The channel has a value already if the request was also interrupted.
func (w *waiter) wake() {
	select {
	case w.admitted <- struct{}{}:
	default:
	}
}

// free makes a waiter reusable, unless a queue still has it, or its channel may have or get a value. The caller must
// have waited and must not use it afterwards.
func (w *waiter) free() {
	if !w.left && !w.kept {
		w.over = false
		waiters.Put(w)
	}
}
