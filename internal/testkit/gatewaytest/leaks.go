package gatewaytest

import (
	"bytes"
	"compress/gzip"
	"fmt"
	"io"
	"runtime/pprof"
	"strings"
	"testing"
	"time"

	"github.com/capgate/capgate/internal/testkit/check"
)

// labelKey is the profiler's label of a gateway's goroutines. Goroutines inherit labels from their creators, so
// it distinguishes the gateways of parallel tests.
const labelKey = "gatewaytest"

func newLabel(t testing.TB, g *Gateway) string { return fmt.Sprintf("%s %p", t.Name(), g) }

// assertNothingLeft fails the test if goroutines of a stopped gateway do not end.
func assertNothingLeft(t testing.TB, label string) {
	t.Helper()
	timeout := time.After(check.Patience)
	// No event announces the end of a goroutine. Each check reads the stacks of all tests, so the interval grows.
	for again := 2 * time.Millisecond; labelled(t, label); again = min(4*again, 100*time.Millisecond) {
		select {
		case <-time.After(again):
		case <-timeout:
			if left := goroutines(t, label); len(left) > 0 {
				t.Errorf("goroutines are left:\n%s", strings.Join(left, "\n\n"))
			}
			return
		}
	}
}

// labelled reports whether a goroutine has a label. The binary form of the profile takes half the time of the text.
func labelled(t testing.TB, label string) bool {
	t.Helper()
	var profile bytes.Buffer
	check.Must(t, pprof.Lookup("goroutine").WriteTo(&profile, 0))
	r, err := gzip.NewReader(&profile)
	check.Must(t, err)
	text, err := io.ReadAll(r)
	check.Must(t, err)
	return bytes.Contains(text, []byte(label))
}

// goroutines lists the stacks that have a label.
func goroutines(t testing.TB, label string) []string {
	t.Helper()
	var profile bytes.Buffer
	check.Must(t, pprof.Lookup("goroutine").WriteTo(&profile, 1))
	var found []string
	for stack := range strings.SplitSeq(profile.String(), "\n\n") {
		if strings.Contains(stack, fmt.Sprintf("%q:%q", labelKey, label)) {
			found = append(found, stack)
		}
	}
	return found
}
