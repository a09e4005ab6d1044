package extauthz

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/capgate/capgate/internal/testkit/check"
)

// aboard waits until n callers wait for the pending request.
func (f *flights) aboard(t *testing.T, n int) {
	t.Helper()
	check.Holds(t, fmt.Sprint(n, " callers to wait"), func() bool {
		f.mu.Lock()
		defer f.mu.Unlock()
		for _, fl := range f.byHash {
			if fl.waiting == n {
				return true
			}
		}
		return false
	})
}

func newFlights() (*flights, *lease) {
	return &flights{ctx: context.Background(), timeout: time.Minute, byHash: map[hash]*flight{}},
		&lease{onEnd: func() {}}
}

// TestFlight: a caller that leaves does not end the request for the others. All of them get the same response, which
// may be an error.
func TestFlight(t *testing.T) {
	t.Parallel()
	f, l := newFlights()
	l.acquire()
	release, failed := make(chan struct{}), errors.New("failed")
	ask := func(ctx context.Context) (verdict, error) {
		<-release
		return verdict{reason: "one"}, errors.Join(failed, ctx.Err())
	}
	leaving, leave := context.WithCancel(t.Context())
	var gone, all sync.WaitGroup
	gone.Go(func() {
		if _, err := f.do(leaving, hash{}, l, ask); !errors.Is(err, context.Canceled) {
			t.Error(err)
		}
	})
	f.aboard(t, 1)
	for range 20 {
		all.Go(func() {
			v, err := f.do(check.Context(t), hash{}, l, func(context.Context) (verdict, error) {
				return verdict{}, errors.New("asked twice")
			})
			if v.reason != "one" || !errors.Is(err, failed) || errors.Is(err, context.Canceled) {
				t.Errorf("%+v, %v", v, err)
			}
		})
	}
	f.aboard(t, 21)
	leave()
	check.Ended(t, &gone, "the callers who left")
	close(release)
	check.Ended(t, &all, "the callers")
	if v, err := f.do(check.Context(t), hash{}, l, func(context.Context) (verdict, error) {
		return verdict{reason: "two"}, nil
	}); v.reason != "two" || err != nil {
		t.Errorf("the next question: %+v, %v", v, err)
	}
}

// TestFlightEndsWithTheLast: when the last caller leaves, the request is canceled. The next caller sends another one.
func TestFlightEndsWithTheLast(t *testing.T) {
	t.Parallel()
	f, l := newFlights()
	ended := make(chan struct{})
	l.acquire()
	ctx, leave := context.WithCancel(t.Context())
	var gone sync.WaitGroup
	gone.Go(func() {
		_, _ = f.do(ctx, hash{}, l, func(ctx context.Context) (verdict, error) {
			<-ctx.Done()
			close(ended)
			return verdict{}, ctx.Err()
		})
	})
	f.aboard(t, 1)
	leave()
	check.Ended(t, &gone, "the callers who left")
	if v, err := f.do(check.Context(t), hash{}, l, func(context.Context) (verdict, error) {
		return verdict{reason: "new"}, nil
	}); v.reason != "new" || err != nil {
		t.Errorf("%+v, %v", v, err)
	}
	check.Received(t, ended, "the question that everyone left to end")
}

// TestEndOfAFormerFlight: the end of a request that all callers have left does not end the next one.
func TestEndOfAFormerFlight(t *testing.T) {
	t.Parallel()
	f, l := newFlights()
	l.acquire()
	former, next := make(chan struct{}), make(chan struct{})
	leaving, leave := context.WithCancel(t.Context())
	ctx := check.Context(t)
	var gone, waiting sync.WaitGroup
	gone.Go(func() {
		_, _ = f.do(leaving, hash{}, l, func(context.Context) (verdict, error) { <-former; return verdict{}, nil })
	})
	f.aboard(t, 1)
	leave()
	check.Ended(t, &gone, "the caller who left")
	waiting.Go(func() {
		if v, err := f.do(ctx, hash{}, l, func(context.Context) (verdict, error) {
			<-next
			return verdict{reason: "next"}, nil
		}); v.reason != "next" || err != nil {
			t.Errorf("%+v, %v", v, err)
		}
	})
	f.aboard(t, 1)
	close(former)
	check.Holds(t, "the former request to end", func() bool {
		l.mu.Lock()
		defer l.mu.Unlock()
		return l.users == 2 // the test and the next request
	})
	f.mu.Lock()
	if f.byHash[hash{}] == nil {
		t.Error("later calls would not join the request that goes on")
	}
	f.mu.Unlock()
	close(next)
	check.Ended(t, &waiting, "the caller")
}

func TestLease(t *testing.T) {
	t.Parallel()
	ends := 0
	l := &lease{onEnd: func() { ends++ }}
	if !l.acquire() {
		t.Fatal("cannot be held")
	}
	l.retire()
	if ends != 0 || !l.acquire() {
		t.Errorf("it ended below who holds it; ends %+v", ends)
	}
	l.release()
	l.release()
	if ends != 1 {
		t.Errorf("it ended %d times", ends)
	}
	if l.acquire() {
		t.Error("it can be held after its end")
	}
}

func FuzzVerdict(f *testing.F) {
	f.Add("\u202e", "x", int64(1_767_225_600), int64(1_767_229_200))
	f.Add("", "\xff", int64(0), int64(1)<<62)
	f.Fuzz(func(t *testing.T, reasoning, hash string, evaluated, expires int64) {
		now := time.Unix(1_800_000_000, 0)
		r := &Reply{Reasoning: reasoning, ActionHash: hash, Evaluated: time.Unix(evaluated, 0),
			Expires: time.Unix(expires, 0)}
		if v := verdictOf(r, now); len(v.reason) > maxReason || len(v.actionHash) > maxActionHash ||
			v.expires.After(now.Add(maxTTL)) {
			t.Errorf("%+v", v)
		}
	})
}
