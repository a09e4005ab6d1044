package sim_test

import (
	"flag"
	"strings"
	"testing"

	"github.com/capgate/capgate/internal/testkit/sim"
)

//nolint:gochecknoglobals // flags
var (
	seeds    = flag.Uint64("seeds", manySeeds, "number of runs of each simulation")
	oneSeed  = flag.Uint64("seed", 0, "run only this seed; 0: all")
	allLines = flag.Bool("lines", false, "show the whole trace of the run of -seed")
)

// manyRuns reports whether there are enough runs to include every kind.
func manyRuns() bool { return *oneSeed == 0 && *seeds >= 60 }

// check runs a simulation for every seed, until one fails.
func check(t *testing.T, play func(w *sim.Simulation)) {
	t.Helper()
	checkSeeds(t, *seeds, play)
}

// checkSeeds is check with the given number of seeds.
func checkSeeds(t *testing.T, last uint64, play func(w *sim.Simulation)) {
	t.Helper()
	first := uint64(1)
	if *oneSeed > 0 {
		first, last = *oneSeed, *oneSeed
	}
	steps := 0
	for seed := first; seed <= last; seed++ {
		r := sim.Run(t, seed, play)
		if steps += r.Steps; r.Err != nil {
			t.Fatal(r.Report(t.Name()))
		}
		if *allLines && *oneSeed > 0 {
			t.Log(strings.Join(r.Trace, "\n"))
		}
	}
	t.Logf("%d seeds, %d steps", last-first+1, steps)
}

// TestSameSeedSameTrace: two runs of a seed have the same trace, in every simulation.
func TestSameSeedSameTrace(t *testing.T) {
	for name, play := range map[string]func(w *sim.Simulation){
		"approvals": playApprovals, "limits": playLimits, "flaps": playFlaps, "keys": playKeys, "health": playHealth,
	} {
		t.Run(name, func(t *testing.T) {
			traces := map[string]bool{}
			for seed := uint64(1); seed <= max(*seeds/10, 5); seed++ {
				a, b := sim.Run(t, seed, play), sim.Run(t, seed, play)
				if at, x, y := a.Differs(&b); at >= 0 {
					t.Errorf("seed %d: after\n%s\nthe first run has\n%s\nand the second has\n%s", seed,
						strings.Join(a.Trace[max(at-10, 0):at], "\n"), x, y)
				}
				traces[strings.Join(a.Trace, "\n")] = true
			}
			if len(traces) < int(max(*seeds/10, 5)) {
				t.Errorf("only %d different traces", len(traces))
			}
		})
	}
}
