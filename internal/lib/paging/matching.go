package paging

import "context"

// maxReads bounds the pages of a stored list that are read for one page of matching items.
const maxReads = 10

// List returns at most most items after a position, and the position of the next page; "" if there is none.
type List[T any] func(ctx context.Context, after string, most int) (items []T, next string, err error)

// Matching returns a List of the items of another List that match. If few of them do, a page is short or empty although
// more follow, so that no page costs much.
func Matching[T any](list List[T], match func(T) bool) List[T] {
	return func(ctx context.Context, after string, most int) (items []T, next string, err error) {
		next = after
		for range maxReads {
			var page []T
			if page, next, err = list(ctx, next, most-len(items)); err != nil {
				return nil, "", err
			}
			for _, item := range page {
				if match(item) {
					items = append(items, item)
				}
			}
			if next == "" || len(items) == most {
				break
			}
		}
		return items, next, nil
	}
}
