package broadcast_test

import (
	"sync"
	"testing"

	"github.com/capgate/capgate/internal/lib/broadcast"
	"github.com/capgate/capgate/internal/testkit/check"
)

// TestSignal: all that wait are woken by the next change, and by that one alone.
func TestSignal(t *testing.T) {
	t.Parallel()
	var s broadcast.Signal
	s.Send() // before anything waits
	first := s.Next()
	select {
	case <-first:
		t.Fatal("a change of before wakes")
	default:
	}
	var waiting sync.WaitGroup
	for range 10 {
		next := s.Next()
		waiting.Go(func() { <-next })
	}
	s.Send()
	check.Ended(t, &waiting, "the waiters to wake")
	check.Received(t, first, "the first of them")
	select {
	case <-s.Next():
		t.Error("one change wakes twice")
	default:
	}
}
