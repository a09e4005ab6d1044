package history

import (
	"cmp"
	"context"
	"maps"
	"slices"
)

// Adopt gives the series a place that replicas have counted apart within the last two hours, those with the most calls
// first. So a replica that starts counts the same series as before and as the others.
func (l *Log) Adopt(ctx context.Context) error {
	week := spans[len(spans)-1]
	sums := map[Series]int64{}
	for _, at := range week.last(l.cfg.Now(), 2) {
		texts, err := l.cfg.Store.All(ctx, at)
		if err != nil {
			return err
		}
		for field, text := range texts {
			of, known := ParseField(field)
			if p, ok := ParsePoint(text); ok && known && of != of.Others() {
				sums[of] += p.Calls()
			}
		}
	}
	busy := slices.SortedFunc(maps.Keys(sums), func(a, b Series) int {
		return cmp.Or(cmp.Compare(sums[b], sums[a]), cmp.Compare(a.Field(), b.Field()))
	})
	groups := map[string]bool{}
	for _, of := range busy {
		if of.Kind != Tenant {
			groups[of.Group] = true
		}
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.pending.groups = max(l.pending.groups, len(groups))
	for _, of := range busy {
		l.pending.keep(of, 0)
	}
	return nil
}
