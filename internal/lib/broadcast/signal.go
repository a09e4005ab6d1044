// Package broadcast passes changes on to all goroutines that follow them.
//
//	Signal  wakes the goroutines that wait for the next change
//	Feed    delivers each change, and says where a slow reader has missed some
package broadcast

import "sync"

// Signal is sent after each change. The zero value is usable. It is safe for concurrent use.
type Signal struct {
	mu   sync.Mutex
	next chan struct{} // closed by Send; nil: no goroutine waits
}

// Next returns a channel that the next Send closes. To miss no change, call it before what may have changed is read.
func (s *Signal) Next() <-chan struct{} {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.next == nil {
		s.next = make(chan struct{})
	}
	return s.next
}

// Send wakes all goroutines that wait. It does not block.
func (s *Signal) Send() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.next != nil {
		close(s.next)
		s.next = nil
	}
}
