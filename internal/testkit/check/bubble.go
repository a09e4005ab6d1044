package check

import (
	"fmt"
	"runtime"
	"testing"
	"testing/synctest"
	"time"
)

// bubbleTime is the real time that a bubble may take. Some have thousands of actors; their waits take no real time.
const bubbleTime = 4 * Patience

// maxStacks bounds the stacks of all goroutines, in bytes.
const maxStacks = 16 << 20

// Bubble runs f in a synctest bubble. If a ticker runs in a bubble, a wait for an event that never comes would advance
// the clock forever. After bubbleTime, the test binary ends instead, with the stacks of all goroutines.
func Bubble(t *testing.T, f func(t *testing.T)) {
	t.Helper()
	bubble(t, bubbleTime, f)
}

func bubble(t *testing.T, most time.Duration, f func(t *testing.T)) {
	t.Helper()
	watch := time.AfterFunc(most, func() {
		// The traceback of a panic may lack the stacks of running goroutines.
		stacks := make([]byte, maxStacks)
		stacks = stacks[:runtime.Stack(stacks, true)]
		panic(fmt.Sprintf("the bubble of %s has not ended after %v\n\n%s", t.Name(), most, stacks))
	})
	defer watch.Stop()
	synctest.Test(t, f) //nolint:forbidigo // the only permitted call
}
