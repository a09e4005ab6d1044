package check

import (
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"
)

// spins is the environment variable that makes the test run forever.
const spins = "CHECK_SPINS"

// TestBubbleEnds: a bubble whose clock advances forever ends, and shows where it waits.
func TestBubbleEnds(t *testing.T) {
	t.Parallel()
	if os.Getenv(spins) != "" { //nolint:forbidigo // the test runs this program again
		bubble(t, 100*time.Millisecond, waitForNothing)
	}
	again := exec.CommandContext(Context(t), os.Args[0], "-test.run", "^"+t.Name()+"$")
	again.Env = append(again.Environ(), spins+"=1")
	out, err := again.CombinedOutput()
	for _, part := range []string{"the bubble of " + t.Name() + " has not ended", "waitForNothing"} {
		if err == nil || !strings.Contains(string(out), part) {
			t.Errorf("%v, without %q: %s", err, part, out)
		}
	}
}

func waitForNothing(*testing.T) {
	tick := time.NewTicker(time.Millisecond)
	defer tick.Stop()
	for range tick.C {
	}
}
