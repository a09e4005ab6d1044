package overload

import (
	"cmp"
	"slices"
)

// demand is how many calls a second a tenant brings.
type demand struct {
	share *Share
	calls float64
}

func total(all []demand) (sum float64) {
	for _, d := range all {
		sum += d.calls
	}
	return sum
}

// waterLevel is how many calls each may have so that together they have no more than limit,
// and nobody has fewer than it brings while another has more than it (max-min fairness).
func waterLevel(all []demand, limit float64) float64 {
	slices.SortFunc(all, func(a, b demand) int { return cmp.Compare(a.calls, b.calls) })
	for i, d := range all {
		level := limit / float64(len(all)-i)
		if d.calls >= level {
			return level
		}
		limit -= d.calls
	}
	// There is enough for all: what is left is for whoever comes.
	if n := len(all); n > 0 {
		return all[n-1].calls + limit
	}
	return limit
}
