package overload

import (
	"cmp"
	"slices"
)

const (
	reportEvery = 50 // ticks between two reports
	reported    = 3  // lines of a report: the tenants with the most shed calls of a limit
)

// shed counts the calls of a tenant that a limit has shed since the last report.
type shed struct {
	tenant string
	limit  Limit
	calls  int64
}

// report logs what was shed since the last report, and for which limit.
func (s *Shedder) report() {
	var all []shed
	s.each(func(tenant string, t *Share) {
		for l := range t.refused {
			n := t.refused[l].Load()
			if n > t.logged[l] {
				all = append(all, shed{tenant, Limit(l), n - t.logged[l]})
			}
			t.logged[l] = n
		}
	})
	slices.SortFunc(all, func(a, b shed) int { return cmp.Compare(b.calls, a.calls) })
	u := s.Usage()
	used := [numLimits]float64{InFlight: u.InFlight, Memory: u.Memory, Delay: u.Delay}
	for i, of := range all[:min(len(all), reported)] {
		args := []any{"limit", of.limit.String(), "tenant", of.tenant, "calls", of.calls, "used", used[of.limit]}
		if rest := len(all) - reported; i == reported-1 && rest > 0 {
			args = append(args, "further_tenants", rest)
		}
		s.cfg.Log.Warn("calls were shed: the process is overloaded", args...)
	}
}
