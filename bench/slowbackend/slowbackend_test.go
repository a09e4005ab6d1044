package main

import "testing"

// A rule that knows every queue has the least p99. If it had not, the simulation would be wrong.
func TestOracleIsTheBest(t *testing.T) {
	t.Parallel()
	best := simulate(8, 1, 1, func(s *simulation) rule { return oracle{s} }).percentile(0.99)
	for name, of := range map[string]func(*simulation) rule{"router": newRouted, "Prequal": newPrequal} {
		if p99 := simulate(8, 1, 1, of).percentile(0.99); p99 < best {
			t.Errorf("%s has a p99 of %v, and the oracle of %v", name, p99, best)
		}
	}
}
