// Package check ends a test that cannot continue: after an error, or when an event that it waits for does not come.
// Its functions are called by the goroutine that runs the test. It also keeps the memory of a test binary small.
package check

import (
	"context"
	"fmt"
	"sync"
	"time"
)

// Patience bounds each wait. It lets a failing test fail soon, and a busy machine take its time.
const Patience = time.Minute

// gap is the time between two looks at a state that no event announces.
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

// Until looks again and again until a condition holds. The test fails with what it saw last.
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

// Holds looks again and again until a condition of one part holds.
func Holds(t TB, what string, so func() bool) {
	t.Helper()
	Until(t, what, func() (bool, string) { return so(), "it does not hold" })
}

// Succeeds tries again and again until there is no error. The test fails with the last one.
func Succeeds(t TB, what string, try func() error) {
	t.Helper()
	Until(t, what, func() (bool, string) {
		err := try()
		return err == nil, fmt.Sprint(err)
	})
}

// UntilEvent looks again after each event until a condition holds. A look that finds it does not hold returns what it
// saw, and the channel of the next event.
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

// Received waits for a value, or for the end of the channel.
func Received[T any](t TB, from <-chan T, what string) (value T) {
	t.Helper()
	select {
	case value = <-from:
	case <-time.After(Patience):
		t.Fatalf("waited %v for %s", Patience, what)
	}
	return value
}

// Ended waits for a group of goroutines that has little to do. One that does much is not bounded as a whole.
func Ended(t TB, group *sync.WaitGroup, what string) {
	t.Helper()
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		group.Wait()
	}()
	Received(t, ended, what)
}

// Context is for a function that waits until its context ends: it ends with the test, or after Patience.
func Context(t interface {
	Context() context.Context
	Cleanup(end func())
}) context.Context {
	ctx, cancel := context.WithTimeout(t.Context(), Patience)
	t.Cleanup(cancel)
	return ctx
}
