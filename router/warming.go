package router

import (
	"sync"
	"time"

	"github.com/capgate/capgate/internal/lib/recovery"
)

// maxWarming is the longest wait of a call for the first probe of a backend that has joined. The
// call then goes to the backend unchanged.
const maxWarming = 500 * time.Millisecond

// warming is the state of a backend until its dialect is known.
type warming struct {
	mu      sync.Mutex
	ended   bool
	timeout *time.Timer // ends it; nil: no call waits yet
	waiting []func()
}

// Warming reports whether the backend's dialect is not known yet and its first probe is about to
// detect it. Calls should Await it.
func (b *Backend) Warming() bool { return b.warming.Load() != nil }

// Await makes a call wait for a Warming backend, for at most half a second. It calls park under a
// lock. The function that park returns resumes the call; it runs once, on another goroutine. Await
// returns false if there is nothing left to wait for.
func (b *Backend) Await(park func() (resume func())) bool {
	w := b.warming.Load()
	if w == nil {
		return false
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.ended {
		return false
	}
	if w.timeout == nil {
		w.timeout = time.AfterFunc(maxWarming, recovery.Func("backend", func() { b.resumeAll(w) }))
	}
	w.waiting = append(w.waiting, park())
	return true
}

// warmed is called when a probe has answered. Waiting calls resume on a separate goroutine, as the
// caller holds state.mu.
func (b *Backend) warmed() {
	w := b.warming.Load()
	if w == nil {
		return
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.timeout != nil {
		w.timeout.Reset(0)
		return
	}
	w.ended = true
	b.warming.Store(nil)
}

// resumeAll resumes the waiting calls.
func (b *Backend) resumeAll(w *warming) {
	w.mu.Lock()
	w.ended = true
	waiting := w.waiting
	w.waiting = nil
	w.mu.Unlock()
	b.warming.Store(nil)
	for _, resume := range waiting {
		resume()
	}
}
