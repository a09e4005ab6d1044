package engine

import (
	"context"
	"errors"
	"io"
	"testing"
	"testing/synctest"

	"github.com/capgate/capgate/internal/testkit/check"
)

func TestBacklog(t *testing.T) {
	b := newBacklog(10)
	b.put([]byte("0123456789abc")) // one always has room
	if got, err := b.next(t.Context()); string(got) != "0123456789abc" || err != nil {
		t.Errorf("%q, %v", got, err)
	}
	b.put([]byte("first"))
	b.put([]byte("next"))
	b.put(nil) // an event without fields
	for _, want := range []string{"first", "next", ""} {
		if got, err := b.next(t.Context()); string(got) != want || err != nil {
			t.Errorf("%q, %v", got, err)
		}
	}
	b.put([]byte("0123456789"))
	b.put([]byte("x"))
	check.Received(t, b.over, "the end of the call")
	b.put([]byte("y"))
	if len(b.events) > 0 || b.bytes > 0 {
		t.Errorf("it keeps %d bytes", b.bytes)
	}
	b.end(nil) // the engine goes on to its last event, which does not make the others complete
	if _, err := b.next(t.Context()); !errors.Is(err, errBehind) {
		t.Errorf("after events were dropped: %v", err)
	}
	ended := newBacklog(10)
	ended.end(nil)
	if _, err := ended.next(t.Context()); !errors.Is(err, io.EOF) {
		t.Errorf("after the last event: %v", err)
	}
	left := newBacklog(10)
	left.leave()
	left.put(make([]byte, 100))
	if len(left.events) > 0 {
		t.Error("events are kept for nobody")
	}
	gone, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := newBacklog(1).next(gone); !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
}

// TestBacklogBeforeItsReader: a reader that has not started does not count as too slow, unless it starts very late.
// Even then, it receives its first event.
func TestBacklogBeforeItsReader(t *testing.T) {
	for _, begins := range []bool{true, false} {
		check.Bubble(t, func(t *testing.T) {
			b, done := newBacklog(10), make(chan struct{})
			go func() {
				defer close(done)
				b.put([]byte("0123456789"))
				b.put([]byte("next"))
			}()
			synctest.Wait()
			if !begins {
				<-b.over
				<-done
				if got, err := b.next(t.Context()); string(got) != "0123456789" || err != nil {
					t.Errorf("begun late: %q, %v", got, err)
				}
				if _, err := b.next(t.Context()); !errors.Is(err, errBehind) {
					t.Errorf("begun late: %v", err)
				}
				return
			}
			for _, want := range []string{"0123456789", "next"} {
				if got, err := b.next(t.Context()); string(got) != want || err != nil {
					t.Errorf("%q, %v", got, err)
				}
			}
			<-done
		})
	}
}
