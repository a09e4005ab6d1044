package sim

import (
	"fmt"
	"strings"
	"testing"
	"testing/cryptotest"

	"github.com/capgate/capgate/internal/testkit/check"
)

// Result is the result of a run.
type Result struct {
	Seed  uint64
	Steps int
	Trace []string // a line for each step
	Err   error    // the broken invariant; nil if there is none
}

// Run runs a simulation once. play drives it, and ends everything that it has started.
func Run(t *testing.T, seed uint64, play func(w *Simulation)) (r Result) {
	t.Helper()
	cryptotest.SetGlobalRandom(t, seed)
	var w *Simulation
	check.Bubble(t, func(*testing.T) {
		w = newSimulation(seed)
		play(w)
		w.actors.Wait()
		w.flush()
	})
	return Result{Seed: seed, Steps: w.steps, Trace: w.trace, Err: w.failed}
}

// Stop ends the run: no event waits any longer. The caller must have ended the contexts of all actors.
func (w *Simulation) Stop() {
	w.mu.Lock()
	w.closed = true
	w.mu.Unlock()
	close(w.stopped)
}

// lastLines is the number of trace lines in a report.
const lastLines = 80

// Differs returns the number of the first line in which the traces of two runs differ, and both lines; -1 if they are
// equal.
func (r *Result) Differs(other *Result) (at int, a, b string) {
	for i := range max(len(r.Trace), len(other.Trace)) {
		a, b = "the end", "the end"
		if i < len(r.Trace) {
			a = r.Trace[i]
		}
		if i < len(other.Trace) {
			b = other.Trace[i]
		}
		if a != b {
			return i, a, b
		}
	}
	return -1, "", ""
}

// Report describes the failure of a run, and how to repeat it.
func (r *Result) Report(test string) string {
	end := r.Trace[max(len(r.Trace)-lastLines, 0):]
	return fmt.Sprintf("seed %d, step %d: %v\n\nThe trace ends with:\n%s\n\nRepeat it with:\n"+
		"go test ./internal/testkit/sim -run '^%s$' -seed %d", r.Seed, r.Steps, r.Err, strings.Join(end, "\n"), test,
		r.Seed)
}
