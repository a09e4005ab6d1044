package tokenbucket_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/capgate/capgate/internal/lib/tokenbucket"
)

// TestTake: a bucket has its burst at once, then one token after each part of its refill, and never more than its
// burst.
func TestTake(t *testing.T) {
	t.Parallel()
	b, now := tokenbucket.New(3, 10*time.Second), time.Now()
	for _, test := range []struct {
		pause  time.Duration
		tokens int
		wait   time.Duration // for the next one
	}{
		{0, 3, 10 * time.Second}, {4 * time.Second, 0, 6 * time.Second}, {6 * time.Second, 1, 10 * time.Second},
		{25 * time.Second, 2, 5 * time.Second}, {-time.Minute, 0, 65 * time.Second}, {time.Hour, 3, 10 * time.Second},
	} {
		now = now.Add(test.pause)
		n, wait := 0, b.Take(now)
		for ; wait == 0; wait = b.Take(now) {
			if n++; n > 10 {
				t.Fatal("there is no bound")
			}
		}
		if n != test.tokens || wait != test.wait {
			t.Errorf("after %v: %d tokens, the next in %v; want %d, %v", test.pause, n, wait, test.tokens, test.wait)
		}
	}
}

// TestSpend: tokens may be spent in advance, and are then lacking.
func TestSpend(t *testing.T) {
	t.Parallel()
	b, now := tokenbucket.New(10, 100*time.Millisecond), time.Now()
	for _, test := range []struct {
		pause        time.Duration
		n            int
		wait, fullIn time.Duration
	}{
		{0, 4, 0, 400 * time.Millisecond}, {0, 6, 0, time.Second}, {0, 20, 2 * time.Second, 3 * time.Second},
		{time.Second, 0, time.Second, 2 * time.Second}, {time.Hour, 0, 0, 0}, {0, 11, 100 * time.Millisecond,
			1100 * time.Millisecond},
	} {
		now = now.Add(test.pause)
		if wait, fullIn := b.Spend(now, test.n), b.FullIn(now); wait != test.wait || fullIn != test.fullIn {
			t.Errorf("%d tokens after %v: %v, full in %v; want %v, %v", test.n, test.pause, wait, fullIn, test.wait,
				test.fullIn)
		}
	}
	if wait := b.Take(now); wait != 200*time.Millisecond {
		t.Errorf("a bucket in debt has a token in %v", wait)
	}
}

// Example: three attempts at once, and then one every ten seconds.
func Example() {
	b, now := tokenbucket.New(3, 10*time.Second), time.Unix(0, 0)
	for range 4 {
		fmt.Println(b.Take(now))
	}
	// Output:
	// 0s
	// 0s
	// 0s
	// 10s
}
