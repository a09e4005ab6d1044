package paging

import (
	"context"
	"strings"
)

const (
	// maxOwners is the maximum number of owners that a page examines.
	maxOwners = 1000
	// maxLists is the maximum number of their lists that a page reads.
	maxLists = 100
)

// Across is a list over many owners, such as the approvals of all tenants. It has one owner's items after the
// other's, in the order of the owners' ids.
type Across[T any] struct {
	// Owners returns a page of owners. It may leave out owners that have nothing, so a page may be short or
	// empty.
	Owners func(ctx context.Context, after string, most int) (ids []string, next string, err error)
	// List returns a page of one owner's items.
	List func(ctx context.Context, owner, after string, most int) (page []T, next string, err error)
}

// Page returns at most size items after the position after, and the position of the next page. A position of ""
// is the beginning, and as a result the end. A page may be short or empty although more follow, so that no page
// costs much.
func (a Across[T]) Page(ctx context.Context, after string, size int) (page []T, next string, err error) {
	owner, within, inside := strings.Cut(after, "\x00")
	if inside {
		if page, within, err = a.List(ctx, owner, within, size); err != nil || within != "" {
			return page, owner + "\x00" + within, err
		}
	}
	if len(page) >= size {
		return page, owner, nil
	}
	owners, next, err := a.Owners(ctx, owner, maxOwners)
	for i := 0; i < len(owners) && err == nil; i++ {
		if len(page) >= size || i == maxLists {
			return page, owners[i-1], nil
		}
		var more []T
		more, within, err = a.List(ctx, owners[i], "", size-len(page))
		if page = append(page, more...); within != "" {
			return page, owners[i] + "\x00" + within, err
		}
	}
	return page, next, err
}
