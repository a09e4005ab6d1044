package tenants

import (
	"slices"
	"strings"
)

// merged is a page of a list that merges the store's entries in a range of ids with those of the configuration.
type merged[T interface{ GetId() string }] struct {
	after, upTo string // range of ids, excluding after; empty means unbounded
	all         []T
}

// contains reports whether an id is in the range.
func (p *merged[T]) contains(id string) bool { return id > p.after && (p.upTo == "" || id <= p.upTo) }

// truncate returns at most a number of entries in the order of ids, and the id after which the next page starts.
func (p *merged[T]) truncate(most int) (all []T, next string) {
	slices.SortFunc(p.all, func(a, b T) int { return strings.Compare(a.GetId(), b.GetId()) })
	if len(p.all) > most {
		return p.all[:most], p.all[most-1].GetId()
	}
	return p.all, p.upTo
}
