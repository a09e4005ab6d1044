package check_test

import (
	"errors"
	"fmt"
	"runtime"
	"sync"
	"testing"
	"time"

	"github.com/capgate/capgate/internal/testkit/check"
)

// recorder is a test that only records its end.
type recorder struct{ says string }

func (*recorder) Helper() {}

func (r *recorder) Fatalf(format string, args ...any) {
	r.says = fmt.Sprintf(format, args...)
	runtime.Goexit()
}

// TestChecks: a check returns as soon as it holds, and otherwise ends the test with the last observation.
func TestChecks(t *testing.T) {
	t.Parallel()
	// after returns a condition that becomes true after a number of calls.
	after := func(n int) func() (bool, string) {
		looks := 0
		return func() (bool, string) {
			looks++
			return looks > n, fmt.Sprintf("look %d", looks)
		}
	}
	never := func() (bool, string) { return false, "nothing" }
	sending := func(after time.Duration) chan int {
		ch := make(chan int, 1)
		time.AfterFunc(after, func() { ch <- 7 })
		return ch
	}
	group := func(takes time.Duration) *sync.WaitGroup {
		var g sync.WaitGroup
		g.Go(func() { <-time.After(takes) })
		return &g
	}
	for name, tt := range map[string]struct {
		check func(check.TB)
		takes time.Duration
		says  string
	}{
		"no error": {func(t check.TB) { check.Must(t, nil) }, 0, ""},
		"an error": {func(t check.TB) { check.Must(t, errors.New("100% lost")) }, 0, "100% lost"},
		"at once":  {func(t check.TB) { check.Until(t, "x", after(0)) }, 0, ""},
		"soon":     {func(t check.TB) { check.Until(t, "x", after(20)) }, 200 * time.Millisecond, ""},
		"never":    {func(t check.TB) { check.Until(t, "x", never) }, check.Patience, "waited 1m0s for x: nothing"},
		"holds": {func(t check.TB) {
			look := after(20)
			check.Holds(t, "x", func() bool { done, _ := look(); return done })
		}, 200 * time.Millisecond, ""},
		"fails": {func(t check.TB) { check.Succeeds(t, "x", func() error { return errors.New("no") }) }, check.Patience,
			"waited 1m0s for x: no"},
		"a value": {func(t check.TB) { check.Received(t, sending(time.Second), "y") }, time.Second, ""},
		"no value": {func(t check.TB) {
			check.Received(t, make(chan int), "y")
		}, check.Patience, "waited 1m0s for y"},
		"a group": {func(t check.TB) { check.Ended(t, group(time.Second), "y") }, time.Second, ""},
		"a slow group": {func(t check.TB) {
			check.Ended(t, group(time.Minute), "y")
		}, check.Patience, "waited 1m0s for y"},
		"an event": {func(t check.TB) { onEvent(t, sending(time.Second), after(1)) }, time.Second, ""},
		"few events": {func(t check.TB) {
			onEvent(t, sending(time.Second), never)
		}, check.Patience, "waited 1m0s for z: nothing"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			check.Bubble(t, func(t *testing.T) {
				began, r, done := time.Now(), &recorder{}, make(chan struct{})
				go func() {
					defer close(done)
					tt.check(r)
				}()
				<-done
				if took := time.Since(began); r.says != tt.says || took.Round(10*time.Millisecond) != tt.takes {
					t.Errorf("after %v: %q, want %q after %v", took, r.says, tt.says, tt.takes)
				}
				<-time.After(time.Hour) // until everything that the check has left behind has ended
			})
		})
	}
}

func onEvent(t check.TB, events <-chan int, look func() (bool, string)) {
	check.UntilEvent(t, "z", func() (bool, string, <-chan int) {
		done, seen := look()
		return done, seen, events
	})
}

// TestContext: the context ends with the test, or after a while.
func TestContext(t *testing.T) {
	t.Parallel()
	check.Bubble(t, func(t *testing.T) {
		began := time.Now()
		<-check.Context(t).Done()
		if took := time.Since(began); took != check.Patience {
			t.Errorf("it ended after %v", took)
		}
	})
}
