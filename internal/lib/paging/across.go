package paging

import (
	"context"
	"strings"
)

const (
	// mostOwners is how many owners a page looks at.
	mostOwners = 1000
	// mostAsked is how many of them it asks for what they have.
	mostAsked = 100
)

// Across is a list of what many owners have, such as the approvals of all tenants: one owner's after the other's,
// by the owners' ids.
type Across[T any] struct {
	// Owners are a page of them. It may leave out those that have nothing, so that it is short, or empty.
	Owners func(ctx context.Context, after string, most int) (ids []string, next string, err error)
	// List is a page of what one has.
	List func(ctx context.Context, owner, after string, most int) (page []T, next string, err error)
}

// Page returns what comes after, at most size, and after what to go on: "" is where to begin, and that there is no
// more. A page may be short or empty with more to come, so that no page costs much.
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
	owners, next, err := a.Owners(ctx, owner, mostOwners)
	for i := 0; i < len(owners) && err == nil; i++ {
		if len(page) >= size || i == mostAsked {
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
