package difftest

import (
	"flag"
	"math/rand/v2"
	"strings"
	"testing"
	"time"
)

var (
	duration = flag.Duration("for", 15*time.Second, "how long TestDifferential generates calls")
	seed     = flag.Uint64("seed", 0, "seed of the generated calls; 0: a different one each time")
	first    = flag.Uint64("first", 0, "number of the first generated call")
)

// TestDifferential: for any input, a backend runs the call that was authorized and recorded.
func TestDifferential(t *testing.T) {
	w := newDeployment(t)
	if *seed == 0 {
		*seed = rand.Uint64()
	}
	t.Logf("seed %d", *seed)
	var fleets []string
	for _, b := range w.backends {
		fleets = append(fleets, b.name+"-"+live, b.name+"-"+doc, b.name+"-"+legacy)
	}
	const batch, mostFailures = 400, 5
	ran, calls, overHTTP, failures := 0, 0, 0, map[string]bool{}
	start := time.Now()
	for number := *first; time.Since(start) < *duration && len(failures) < mostFailures; {
		all, numbers := make([]*attempt, batch), make([]uint64, batch)
		for i := range all {
			g := &generator{Rand: rand.New(rand.NewPCG(*seed, number)), fleets: fleets}
			all[i], numbers[i] = g.attempt(), number
			number++
		}
		for i, o := range w.attempts(t, all) {
			calls++
			ran += len(o.runs)
			if all[i].json {
				overHTTP += len(o.runs)
			}
			if err := verify(all[i], &o); err != nil && !failures[kindOf(err)] && len(failures) < mostFailures {
				failures[kindOf(err)] = true
				w.report(t, all[i], numbers[i], err)
			}
		}
		w.late(t)
	}
	t.Logf("%d calls, %d of them ran, of which %d came as JSON over HTTP", calls, ran, overHTTP)
	if ran*20 < calls || overHTTP*100 < ran {
		t.Errorf("only %d of %d calls ran: what is made up is refused for what it is not tried for", ran, calls)
	}
}

// kindOf returns the kind of a failure.
func kindOf(err error) string {
	kind, _, _ := strings.Cut(err.Error(), ": ")
	return kind
}

// report reports a failure with the smallest attempt that still fails.
func (w *deployment) report(t *testing.T, a *attempt, number uint64, err error) {
	t.Helper()
	fails := func(a *attempt) bool {
		o := w.attempts(t, []*attempt{a})
		again := verify(a, &o[0])
		return again != nil && kindOf(again) == kindOf(err)
	}
	small := shrink(a, fails)
	o := w.attempts(t, []*attempt{small})
	t.Errorf("go test ./internal/testkit/difftest -run Differential -seed %d -first %d\n%v\n%v\nat its "+
		"smallest: %v\n%v", *seed, number, err, a, verify(small, &o[0]), small)
}
