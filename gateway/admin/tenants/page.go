package tenants

import (
	"slices"
	"strings"
)

// merged is a page of a list that merges the store's entries, those after one id up to another, with the
// configuration's.
type merged[T interface{ GetId() string }] struct {
	after, upTo string // empty means from the beginning, to the end
	all         []T
}

// contains reports whether an id is in the range of the page.
func (p *merged[T]) contains(id string) bool { return id > p.after && (p.upTo == "" || id <= p.upTo) }

// truncate returns the entries by id, at most a number of them, and the id after which the next page begins.
func (p *merged[T]) truncate(most int) (all []T, next string) {
	slices.SortFunc(p.all, func(a, b T) int { return strings.Compare(a.GetId(), b.GetId()) })
	if len(p.all) > most {
		return p.all[:most], p.all[most-1].GetId()
	}
	return p.all, p.upTo
}
