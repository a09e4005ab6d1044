package overload

import (
	"cmp"
	"slices"
)

// demand is a tenant's calls a second.
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

// waterLevel returns the calls that each tenant may have so that the total is at most limit, and no tenant has
// less than its demand while another has more (max-min fairness).
func waterLevel(all []demand, limit float64) float64 {
	slices.SortFunc(all, func(a, b demand) int { return cmp.Compare(a.calls, b.calls) })
	for i, d := range all {
		level := limit / float64(len(all)-i)
		if d.calls >= level {
			return level
		}
		limit -= d.calls
	}
	// There is enough for all: the rest is for newcomers.
	if n := len(all); n > 0 {
		return all[n-1].calls + limit
	}
	return limit
}
