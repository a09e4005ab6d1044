package kubernetes

import (
	"cmp"
	"slices"
	"strings"
	"time"
)

// claim is a part of a bounded amount that a Service claims. The oldest Services of a namespace are first.
type claim[K comparable] struct {
	key             K
	namespace, name string
	created         time.Time
	size            int
	level           int // the size of the claims of its namespace up to this one
}

// older orders claims by age. Those of the same second are in the order of their names.
func older[K comparable](a, b claim[K]) int {
	return cmp.Or(a.created.Compare(b.created), strings.Compare(a.namespace, b.namespace),
		strings.Compare(a.name, b.name))
}

// share returns the keys of the claims that fit into a total. Namespaces have equal shares, and what one does not claim
// is for the others. The result depends on the claims alone, so that replicas agree, also after restarts.
func share[K comparable](claims []claim[K], total int) map[K]bool {
	slices.SortFunc(claims, older)
	levels := map[string]int{}
	for i := range claims {
		c := &claims[i]
		levels[c.namespace] += c.size
		c.level = levels[c.namespace]
	}
	slices.SortStableFunc(claims, func(a, b claim[K]) int { return cmp.Compare(a.level, b.level) })
	fitting := map[K]bool{}
	for i := range claims {
		if total -= claims[i].size; total < 0 {
			break
		}
		fitting[claims[i].key] = true
	}
	return fitting
}
