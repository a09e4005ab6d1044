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

// TestTakeAll: as many tokens as the burst can be taken at once, and none of more than there are.
func TestTakeAll(t *testing.T) {
	t.Parallel()
	b, now := tokenbucket.New(10, time.Second), time.Now()
	for _, test := range []struct {
		n    int
		wait time.Duration
	}{{11, time.Second}, {7, 0}, {4, time.Second}, {3, 0}, {1, time.Second}} {
		if wait := b.TakeAll(now, test.n); wait != test.wait {
			t.Errorf("%d tokens: %v, want %v", test.n, wait, test.wait)
		}
	}
}

// TestKeyed: each key has a bucket of its own, until others have been used more recently.
func TestKeyed(t *testing.T) {
	t.Parallel()
	k, now := tokenbucket.NewKeyed(2, 1, time.Second), time.Now()
	for _, test := range []struct {
		key  string
		wait time.Duration
	}{{"a", 0}, {"a", time.Second}, {"b", 0}, {"a", time.Second}, {"c", 0}, {"a", time.Second}, {"b", 0}} {
		if wait := k.Of(test.key).Take(now); wait != test.wait {
			t.Errorf("%s: %v, want %v", test.key, wait, test.wait)
		}
	}
}
