package gatewaytest

import (
	"bytes"
	"fmt"
	"runtime/pprof"
	"strings"
	"testing"
	"time"
)

// labelKey is the profiler's label of a gateway's goroutines. Goroutines inherit labels from their creators, so
// it distinguishes the gateways of parallel tests.
const labelKey = "gatewaytest"

func newLabel(t testing.TB, g *Gateway) string { return fmt.Sprintf("%s %p", t.Name(), g) }

// assertNothingLeft fails the test when goroutines of a gateway that has stopped do
// not end.
func assertNothingLeft(t testing.TB, label string) {
	t.Helper()
	timeout := time.After(Patience)
	// No event follows the end of a goroutine. A look reads the stacks of all tests, so looks become rarer.
	for again := time.Millisecond; ; again = min(2*again, 100*time.Millisecond) {
		left := goroutines(t, label)
		if len(left) == 0 {
			return
		}
		select {
		case <-time.After(again):
		case <-timeout:
			t.Errorf("goroutines are left:\n%s", strings.Join(left, "\n\n"))
			return
		}
	}
}

// goroutines lists the stacks that have a label.
func goroutines(t testing.TB, label string) []string {
	t.Helper()
	var profile bytes.Buffer
	if err := pprof.Lookup("goroutine").WriteTo(&profile, 1); err != nil {
		t.Fatal(err)
	}
	var found []string
	for stack := range strings.SplitSeq(profile.String(), "\n\n") {
		if strings.Contains(stack, fmt.Sprintf("%q:%q", labelKey, label)) {
			found = append(found, stack)
		}
	}
	return found
}
