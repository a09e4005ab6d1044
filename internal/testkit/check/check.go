// Package check ends a test that cannot continue: after an error, or if an expected event does not occur. Its functions
// must be called by the goroutine that runs the test. It also keeps the memory of a test binary small.
package check

import (
	"context"
	"fmt"
	"sync"
	"time"
)

// Patience bounds each wait. It is short enough for a failing test and long enough for a busy machine.
const Patience = time.Minute

// gap is the polling interval for a state without events.
const gap = 10 * time.Millisecond

// TB is the part of testing.TB that the functions need.
type TB interface {
	Helper()
	Fatalf(format string, args ...any)
}

// Must ends the test if err is not nil.
func Must(t TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatalf("%v", err)
	}
}

// Until polls until a condition holds. If it does not, the test fails with the last observation.
func Until(t TB, what string, look func() (done bool, seen string)) {
	t.Helper()
	UntilEvent(t, what, func() (bool, string, <-chan time.Time) {
		done, seen := look()
		if done {
			return true, seen, nil
		}
		return false, seen, time.After(gap)
	})
}

// Holds is Until for a condition without an observation.
func Holds(t TB, what string, so func() bool) {
	t.Helper()
	Until(t, what, func() (bool, string) { return so(), "it does not hold" })
}

// Succeeds retries until there is no error. If the error persists, the test fails with the last one.
func Succeeds(t TB, what string, try func() error) {
	t.Helper()
	Until(t, what, func() (bool, string) {
		err := try()
		return err == nil, fmt.Sprint(err)
	})
}

// UntilEvent checks a condition after each event until it holds. If it does not hold, look returns the observation and
// the channel of the next event.
func UntilEvent[S, E any](t TB, what string, look func() (done bool, seen S, next <-chan E)) {
	t.Helper()
	for end := time.After(Patience); ; {
		done, seen, next := look()
		if done {
			return
		}
		select {
		case <-next:
		case <-end:
			text, isText := any(seen).([]byte)
			if !isText {
				text = fmt.Appendf(nil, "%+v", seen)
			}
			t.Fatalf("waited %v for %s: %s", Patience, what, text)
			return
		}
	}
}

// Received waits for a value, or until the channel is closed.
func Received[T any](t TB, from <-chan T, what string) (value T) {
	t.Helper()
	select {
	case value = <-from:
	case <-time.After(Patience):
		t.Fatalf("waited %v for %s", Patience, what)
	}
	return value
}

// Ended waits for goroutines that have little work left. Goroutines with much work need another bound.
func Ended(t TB, group *sync.WaitGroup, what string) {
	t.Helper()
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		group.Wait()
	}()
	Received(t, ended, what)
}

// Context returns a context that ends with the test, or after Patience.
func Context(t interface {
	Context() context.Context
	Cleanup(end func())
}) context.Context {
	ctx, cancel := context.WithTimeout(t.Context(), Patience)
	t.Cleanup(cancel)
	return ctx
}
