package tenants

import (
	"slices"
	"strings"
)

// page is of a list that is partly in a store, which has answered with what is after one id and
// up to another, and partly in the configuration.
type page[T interface{ GetId() string }] struct {
	after, upTo string // "": from the beginning, to the end
	all         []T
}

// has says whether an id is where the page is.
func (p *page[T]) has(id string) bool { return id > p.after && (p.upTo == "" || id <= p.upTo) }

// cut is what there is by id, at most so many, and after what to go on.
func (p *page[T]) cut(most int) (all []T, next string) {
	slices.SortFunc(p.all, func(a, b T) int { return strings.Compare(a.GetId(), b.GetId()) })
	if len(p.all) > most {
		return p.all[:most], p.all[most-1].GetId()
	}
	return p.all, p.upTo
}
