package token

import (
	"cmp"
	"slices"
)

// Stats are the counters of one issuer. They only grow, except when the source of its keys is reconfigured.
type Stats struct {
	Issuer  string // its name
	Up      bool   // the last fetch succeeded
	Fetched int64  // successful fetches of its keys
	Failed  int64  // failed ones
	Limited int64  // fetches for unknown keys that were suppressed
}

// Stats returns those of all issuers, by name.
func (v *Verifier) Stats() []Stats {
	table := *v.table.Load()
	all := make([]Stats, 0, len(table))
	for _, i := range table {
		s := i.source
		all = append(all, Stats{Issuer: i.Name, Up: s.up.Load(), Fetched: s.fetched.Load(), Failed: s.failed.Load(),
			Limited: s.limited.Load()})
	}
	slices.SortFunc(all, func(a, b Stats) int { return cmp.Compare(a.Issuer, b.Issuer) })
	return all
}

// Len returns the number of cached tokens.
func (v *Verifier) Len() int { return v.cache.Len() }
