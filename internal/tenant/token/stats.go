package token

import (
	"cmp"
	"slices"
)

// Stats are of one issuer. The counters only grow, but for an issuer whose keys are fetched
// otherwise than before.
type Stats struct {
	Issuer  string // its name
	Up      bool   // the last fetch went well
	Fetched int64  // fetches of its keys that went well
	Failed  int64  // those that did not
	Limited int64  // those that an unknown key was not worth
}

// Stats are of all issuers, by their names.
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

// Len is how many verified tokens are in memory.
func (v *Verifier) Len() int { return v.cache.len() }
