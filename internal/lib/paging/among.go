package paging

import "context"

// Among returns the Owners of an Across over some owners, which are sorted.
func Among(ids []string) func(ctx context.Context, after string, most int) ([]string, string, error) {
	return func(_ context.Context, after string, most int) (owners []string, next string, err error) {
		owners, next = Slice(Page{most, after}, ids, ID)
		return owners, next, nil
	}
}

// ID returns the position of an item that is its id.
func ID(id string) string { return id }
