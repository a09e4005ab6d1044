package backoff_test

import (
	"context"
	"math"
	"testing"
	"time"

	"github.com/capgate/capgate/internal/lib/backoff"
	"github.com/capgate/capgate/internal/testkit/check"
)

// TestWaitsDouble up to the longest one, also after very many failures, and begin anew after a success.
func TestWaitsDouble(t *testing.T) {
	t.Parallel()
	b := backoff.Backoff{First: time.Second, Max: 5 * time.Second}
	for range 2 {
		for i, want := range []time.Duration{1, 2, 4, 5, 5} {
			if got := b.Next(); got != want*time.Second {
				t.Errorf("wait %d is %v", i, got)
			}
		}
		b.Reset()
	}
	for most, want := range map[time.Duration]time.Duration{time.Millisecond: time.Millisecond, time.Hour: time.Hour} {
		if got := backoff.After(math.MaxInt, time.Second, most); got != want {
			t.Errorf("after very many failures %v, at most %v", got, most)
		}
	}
}

// TestJitterVaries a duration in both directions, by no more than its share.
func TestJitterVaries(t *testing.T) {
	t.Parallel()
	shorter, longer := 0, 0
	for range 1000 {
		switch d := backoff.Jitter(time.Second, 0.2); {
		case d < 800*time.Millisecond || d > 1200*time.Millisecond:
			t.Fatalf("%v of a second", d)
		case d < time.Second:
			shorter++
		default:
			longer++
		}
	}
	if shorter < 300 || longer < 300 {
		t.Errorf("%d shorter, %d longer", shorter, longer)
	}
	last := func(d time.Duration) time.Duration { return d - 1 }
	if d := backoff.JitterFrom(last, time.Second, 0.25); d != 1250*time.Millisecond-1 || backoff.Jitter(0, 0.2) != 0 {
		t.Errorf("the longest is %v", d)
	}
}

// TestSleepEnds after its time, or with its context.
func TestSleepEnds(t *testing.T) {
	t.Parallel()
	check.Bubble(t, func(t *testing.T) {
		began := time.Now()
		if !backoff.Sleep(t.Context(), time.Second) || time.Since(began) != time.Second {
			t.Errorf("a second takes %v", time.Since(began))
		}
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		if backoff.Sleep(ctx, time.Minute) || time.Since(began) != 2*time.Second {
			t.Errorf("until the context ends it takes %v", time.Since(began)-time.Second)
		}
	})
}
