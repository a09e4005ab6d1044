package main

import "testing"

// TestOracleIsTheBest: the rule that knows every queue has the lowest p99. Otherwise, the simulation is wrong.
func TestOracleIsTheBest(t *testing.T) {
	t.Parallel()
	best := simulate(8, 1, 1, func(s *simulation) rule { return oracle{s} }).percentile(0.99)
	for name, of := range map[string]func(*simulation) rule{"router": newRouted, "Prequal": newPrequal} {
		if p99 := simulate(8, 1, 1, of).percentile(0.99); p99 < best {
			t.Errorf("%s has a p99 of %v, and the oracle of %v", name, p99, best)
		}
	}
}
