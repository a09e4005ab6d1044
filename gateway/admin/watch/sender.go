package watch

import (
	"time"

	"github.com/capgate/capgate/internal/call"
	"github.com/capgate/capgate/internal/lib/recovery"
)

// slow is the maximum time for a client to read an event.
const slow = 10 * time.Second

var refusedSlow = &call.Refusal{Kind: call.ResourceExhausted, Reason: "WATCHER_SLOW",
	Message: "the client did not read events; resume after the last event"}

// Sender sends events to a client that must read each within 10s. It must be used by one goroutine.
type Sender[T any] struct {
	next  chan T
	ended chan struct{}
	err   error // final error; valid after ended
	late  bool
}

// NewSender returns a Sender over the Send method of a stream. It must be closed before the RPC returns.
func NewSender[T any](send func(T) error) *Sender[T] {
	s := &Sender[T]{next: make(chan T), ended: make(chan struct{})}
	go func() { // ends after Close, when the last event is sent or the stream has ended
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

// Send sends an event. The error is a *call.Refusal if the client did not read the previous event in time, or the
// error of the stream.
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

// Close waits until all events are sent, unless the client is late: then only the end of the stream ends that Send.
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
