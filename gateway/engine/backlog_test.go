package engine

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
)

func TestBacklog(t *testing.T) {
	b := newBacklog(10)
	b.put([]byte("0123456789abc")) // one always has room
	if got, err := b.next(t.Context()); string(got) != "0123456789abc" || err != nil {
		t.Errorf("%q, %v", got, err)
	}
	b.put([]byte("first"))
	b.put([]byte("next"))
	b.end(nil)
	for _, want := range []string{"first", "next", ""} {
		if got, err := b.next(t.Context()); string(got) != want || err != nil {
			t.Errorf("%q, %v", got, err)
		}
	}
	b.put([]byte("0123456789"))
	b.put([]byte("x"))
	<-b.over
	b.put([]byte("y"))
	if len(b.events) > 0 || b.bytes > 0 {
		t.Errorf("it keeps %d bytes", b.bytes)
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

// TestBacklogBeforeItsReader: a reader that has not begun is not too slow, unless it does not begin at all.
func TestBacklogBeforeItsReader(t *testing.T) {
	for _, begins := range []bool{true, false} {
		synctest.Test(t, func(t *testing.T) {
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
