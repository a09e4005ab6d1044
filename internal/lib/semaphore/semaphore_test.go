package semaphore_test

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"

	"github.com/capgate/capgate/internal/lib/semaphore"
	"github.com/capgate/capgate/internal/testkit/check"
)

func acquire(t *testing.T, s *semaphore.Semaphore, tenant string) func() {
	t.Helper()
	release, err := s.Acquire(t.Context(), tenant)
	check.Must(t, err)
	return release
}

// A tenant never has all places, and another need not wait for it.
func TestNoTenantHasAll(t *testing.T) {
	t.Parallel()
	check.Bubble(t, func(t *testing.T) {
		s := semaphore.New(3, 10)
		first, second := acquire(t, s, "a"), acquire(t, s, "a")
		var third atomic.Bool
		go func() {
			release := acquire(t, s, "a")
			third.Store(true)
			release()
		}()
		synctest.Wait()
		if third.Load() {
			t.Error("it has all places")
		}
		acquire(t, s, "b")()
		synctest.Wait()
		if third.Load() {
			t.Error("it has all places, as another has left")
		}
		first()
		synctest.Wait()
		if !third.Load() {
			t.Error("it still waits")
		}
		second()
	})
}

// TestTenantsInTurn: waiting calls are admitted in turn, by tenant.
func TestTenantsInTurn(t *testing.T) {
	t.Parallel()
	check.Bubble(t, func(t *testing.T) {
		s := semaphore.New(2, 10)
		holds := []func(){acquire(t, s, "x"), acquire(t, s, "y")}
		var mu sync.Mutex
		got := ""
		for _, tenant := range []string{"a", "a", "a", "b", "c", "b"} {
			go func() {
				release := acquire(t, s, tenant)
				mu.Lock()
				got += tenant
				mu.Unlock()
				release()
			}()
			synctest.Wait()
		}
		holds[0]()
		synctest.Wait()
		holds[1]()
		if got != "abcaba" {
			t.Error(got)
		}
	})
}

func TestTooManyWait(t *testing.T) {
	t.Parallel()
	check.Bubble(t, func(t *testing.T) {
		s := semaphore.New(0, 1) // which is 2 places
		release := acquire(t, s, "a")
		ctx, cancel := context.WithCancel(t.Context())
		var waited error
		go func() { _, waited = s.Acquire(ctx, "a") }()
		synctest.Wait()
		if _, err := s.Acquire(ctx, "a"); !errors.Is(err, semaphore.ErrFull) {
			t.Error(err)
		}
		cancel()
		synctest.Wait()
		if !errors.Is(waited, context.Canceled) {
			t.Error(waited)
		}
		release()
		for range 10 { // nothing is lost
			acquire(t, s, "a")()
		}
	})
}

// TestNeverMoreThanTheLimit: the number of calls at once stays below the limit, even if waiting calls give up, and all
// places are returned.
func TestNeverMoreThanTheLimit(t *testing.T) {
	t.Parallel()
	s := semaphore.New(3, 1000)
	var at, most atomic.Int32
	var all sync.WaitGroup
	for i := range 300 {
		all.Go(func() {
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			if i%5 == 0 {
				go cancel()
			}
			release, err := s.Acquire(ctx, string(rune('a'+i%4)))
			if err != nil {
				if i%5 > 0 {
					t.Errorf("one that does not give up: %v", err)
				}
				return
			}
			if n := at.Add(1); n > 3 {
				most.Store(n)
			}
			at.Add(-1)
			release()
		})
	}
	all.Wait()
	if most.Load() > 0 {
		t.Errorf("%d at once", most.Load())
	}
	for _, tenant := range []string{"a", "a", "b"} { // all places are there
		acquire(t, s, tenant)
	}
}
