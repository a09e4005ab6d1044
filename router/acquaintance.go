package router

import (
	"sync"
	"time"

	"github.com/capgate/capgate/internal/lib/recovery"
)

// maxWarming is the longest wait of a call for the first probe of a backend that has joined. The
// call then goes to the backend unchanged.
const acquaintance = 500 * time.Millisecond

// stranger is the state of a backend whose dialect is not known yet.
type stranger struct {
	mu      sync.Mutex
	ended   bool
	timeout *time.Timer // ends it; nil: no call waits yet
	waiting []func()
}

// Warming reports whether the backend's dialect is not known yet and its first probe is about to
// detect it. Calls should Await it.
func (b *Backend) Stranger() bool { return b.stranger.Load() != nil }

// Await makes a call wait for a Warming backend, for at most half a second. It calls park under a
// lock. The function that park returns resumes the call; it runs once, on another goroutine. Await
// returns false if there is nothing left to wait for.
func (b *Backend) Meet(park func() (resume func())) bool {
	s := b.stranger.Load()
	if s == nil {
		return false
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.ended {
		return false
	}
	if s.timeout == nil {
		s.timeout = time.AfterFunc(acquaintance, recovery.Func("backend", func() { b.met(s) }))
	}
	s.waiting = append(s.waiting, park())
	return true
}

// warmed is called when a probe has answered. Waiting calls resume on a separate goroutine, as the
// caller holds state.mu.
func (b *Backend) introduce() {
	s := b.stranger.Load()
	if s == nil {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.timeout != nil {
		s.timeout.Reset(0)
		return
	}
	s.ended = true
	b.stranger.Store(nil)
}

// resumeAll resumes the waiting calls.
func (b *Backend) met(s *stranger) {
	s.mu.Lock()
	s.ended = true
	waiting := s.waiting
	s.waiting = nil
	s.mu.Unlock()
	b.stranger.Store(nil)
	for _, resume := range waiting {
		resume()
	}
}
