package watch

import (
	"time"

	"github.com/capgate/capgate/internal/call"
	"github.com/capgate/capgate/internal/lib/recovery"
)

// slow is the maximum time that a client may take to read an event.
const slow = 10 * time.Second

var refusedSlow = &call.Refusal{Kind: call.ResourceExhausted, Reason: "WATCHER_SLOW",
	Message: "the client did not read events; resume after the last event"}

// Sender sends events to a client that has to read each within 10 s. It is for one goroutine.
type Sender[T any] struct {
	next  chan T
	ended chan struct{}
	err   error // the final error; valid after ended
	late  bool
}

// NewSender returns a Sender over the Send of a stream. Close it before the RPC returns.
func NewSender[T any](send func(T) error) *Sender[T] {
	s := &Sender[T]{next: make(chan T), ended: make(chan struct{})}
	go func() { // ends after Close, when the last event is sent or the stream is over
		defer close(s.ended)
		s.err = recovery.Do("watcher", func() error {
			for e := range s.next {
				if err := send(e); err != nil {
					return err
				}
			}
			return nil
		})
	}()
	return s
}

// Send sends an event. The error is a *call.Refusal if the client did not read the previous one in time, or the error
// of the stream.
func (s *Sender[T]) Send(event T) error {
	t := time.NewTimer(slow)
	defer t.Stop()
	select {
	case s.next <- event:
		return nil
	case <-s.ended:
		return s.err
	case <-t.C:
		s.late = true
		return refusedSlow
	}
}

// Close waits until all events are sent, except for a late client: only the end of the stream ends that Send.
func (s *Sender[T]) Close() {
	close(s.next)
	if s.late {
		return
	}
	t := time.NewTimer(slow)
	defer t.Stop()
	select {
	case <-s.ended:
	case <-t.C:
	}
}
