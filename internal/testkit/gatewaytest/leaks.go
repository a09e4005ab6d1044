package gatewaytest

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"runtime"
	"runtime/pprof"
	"strconv"
	"strings"
	"sync"
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
	// No event announces the end of a goroutine. Each check stops the process and reads the stacks of all tests, so
	// the interval grows.
	for again := 2 * time.Millisecond; ; again = min(4*again, 100*time.Millisecond) {
		left := goroutines(label)
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

// traces is the memory for the stacks of all goroutines, which a thousand gateways look at.
var traces struct {
	sync.Mutex
	text []byte
}

// labelTraces makes the runtime write the labels of goroutines with their stacks. The profile of goroutines has them as
// well, but takes four times as long under the race detector.
var labelTraces = sync.OnceValue(func() error {
	if err := os.Setenv("GODEBUG", os.ExpandEnv("$GODEBUG,tracebacklabels=1")); err != nil {
		return err
	}
	seen := 0
	const self = "the caller"
	pprof.Do(context.Background(), pprof.Labels(labelKey, self), func(context.Context) { seen = len(goroutines(self)) })
	if seen != 1 {
		return errors.New("the runtime writes no labels of goroutines, so none that are left would be found")
	}
	return nil
})

// goroutines lists the stacks that have a label.
func goroutines(label string) (found []string) {
	traces.Lock()
	defer traces.Unlock()
	n := runtime.Stack(traces.text, true)
	for n == len(traces.text) { // it may be cut
		traces.text = make([]byte, 2*n+1<<20)
		n = runtime.Stack(traces.text, true)
	}
	labelled := fmt.Appendf(nil, `"%s": %s`, labelKey, strconv.QuoteToASCII(label))
	if !bytes.Contains(traces.text[:n], labelled) {
		return nil
	}
	for stack := range bytes.SplitSeq(traces.text[:n], []byte("\n\n")) {
		if bytes.Contains(stack, labelled) {
			found = append(found, string(stack))
		}
	}
	return found
}
