package paging

import (
	"context"
	"slices"
)

// Among returns the Owners of an Across over some owners, which are sorted.
func Among(ids []string) func(ctx context.Context, after string, most int) ([]string, string, error) {
	return func(_ context.Context, after string, most int) ([]string, string, error) {
		from, found := slices.BinarySearch(ids, after)
		if found {
			from++
		}
		if rest := ids[from:]; len(rest) > most {
			return rest[:most], rest[most-1], nil
		}
		return ids[from:], "", nil
	}
}
