package cache_test

import (
	"context"
	"errors"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/capgate/capgate/internal/lib/cache"
	"github.com/capgate/capgate/internal/lib/recovery"
	"github.com/capgate/capgate/internal/testkit/check"
)

// TestOneRequestForAKey: a thousand goroutines that want one result cause one request, and another key has its own. A
// later request is another one.
func TestOneRequestForAKey(t *testing.T) {
	t.Parallel()
	check.Bubble(t, func(t *testing.T) {
		var flights cache.Flights[string, int]
		failed := errors.New("no")
		gate, asked := make(chan struct{}), 0
		var all sync.WaitGroup
		for range 1000 {
			all.Go(func() {
				v, answered, err := flights.Do(t.Context(), "key", func() (int, error) {
					asked++
					<-gate
					return 7, failed
				})
				if v != 7 || !answered || !errors.Is(err, failed) {
					t.Errorf("%d, %v, %v", v, answered, err)
				}
			})
		}
		synctest.Wait()
		if v, answered, err := flights.Do(t.Context(), "other", func() (int, error) { return 8, nil }); v != 8 ||
			!answered || err != nil {
			t.Errorf("another key: %d, %v, %v", v, answered, err)
		}
		close(gate)
		all.Wait()
		if v, _, _ := flights.Do(t.Context(), "key", func() (int, error) { return 9, nil }); asked != 1 || v != 9 {
			t.Errorf("asked %d times, then %d", asked, v)
		}
	})
}

// TestAWaitEnds with its context, while the request goes on for others..
func TestAWaitEnds(t *testing.T) {
	t.Parallel()
	check.Bubble(t, func(t *testing.T) {
		var flights cache.Flights[string, int]
		gate := make(chan struct{})
		load := func() (int, error) { <-gate; return 7, nil }
		short, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		began := time.Now()
		if _, answered, err := flights.Do(short, "key", load); answered || err != nil ||
			time.Since(began) != time.Second {
			t.Errorf("answered %v, %v after %v", answered, err, time.Since(began))
		}
		var waiting sync.WaitGroup
		waiting.Go(func() {
			if v, answered, _ := flights.Do(t.Context(), "key", load); v != 7 || !answered {
				t.Errorf("%d, %v", v, answered)
			}
		})
		synctest.Wait()
		close(gate)
		waiting.Wait()
	})
}

// TestAPanicEndsARequest with an error, not the process.
func TestAPanicEndsARequest(t *testing.T) {
	t.Parallel()
	var flights cache.Flights[string, int]
	_, answered, err := flights.Do(t.Context(), "key", func() (int, error) { panic("no") })
	if !answered || !errors.Is(err, recovery.ErrPanic) {
		t.Errorf("answered %v, %v", answered, err)
	}
}
