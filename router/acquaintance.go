package router

import (
	"sync"
	"time"

	"github.com/capgate/capgate/internal/lib/recovery"
)

// acquaintance is how long calls wait at most for the first probe of a backend that has
// joined. After that they go to it as they came.
const acquaintance = 500 * time.Millisecond

// stranger is a backend of which nobody knows yet which dialect it speaks.
type stranger struct {
	mu      sync.Mutex
	ended   bool
	patient *time.Timer // ends it; nil: no call has come
	waiting []func()
}

// Stranger says that nobody knows yet which dialect the backend speaks, and that a probe is
// about to tell: calls should Meet it.
func (b *Backend) Stranger() bool { return b.stranger.Load() != nil }

// Meet lets a call to a Stranger wait, for half a second at most: park is called, under a
// lock, and returns what lets the call go on, which is called once, from another goroutine. It
// returns false if there is nothing to wait for any more.
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
	if s.patient == nil {
		s.patient = time.AfterFunc(acquaintance, recovery.Func("backend", func() { b.met(s) }))
	}
	s.waiting = append(s.waiting, park())
	return true
}

// introduce tells that a probe has answered. Calls that wait go on from a goroutine of their
// own, as the caller holds standing.mu.
func (b *Backend) introduce() {
	s := b.stranger.Load()
	if s == nil {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.patient != nil {
		s.patient.Reset(0)
		return
	}
	s.ended = true
	b.stranger.Store(nil)
}

// met lets calls go on.
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
