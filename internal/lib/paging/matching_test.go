package paging_test

import (
	"context"
	"fmt"
	"slices"
	"testing"

	"github.com/capgate/capgate/internal/lib/paging"
	"github.com/capgate/capgate/internal/testkit/check"
)

// TestMatchingItemsOfAStoredList: the pages have each matching item once, and none reads much.
func TestMatchingItemsOfAStoredList(t *testing.T) {
	t.Parallel()
	var stored []string
	for i := range 1000 {
		stored = append(stored, fmt.Sprintf("%04d", i))
	}
	reads := 0
	list := func(_ context.Context, after string, most int) ([]string, string, error) {
		reads++
		items, next := paging.Slice(paging.Page{Size: most, After: after}, stored, paging.ID)
		return items, next, nil
	}
	matching := paging.Matching(list, func(s string) bool { return s[3] == '7' && s > "0100" })
	var found []string
	for after, pages := "", 0; pages == 0 || after != ""; pages++ {
		reads = 0
		page, next, err := matching(t.Context(), after, 10)
		check.Must(t, err)
		if len(page) > 10 || reads > 10 {
			t.Errorf("page %d has %d items after %d reads", pages, len(page), reads)
		}
		found, after = append(found, page...), next
	}
	if len(found) != 90 || found[0] != "0107" || !slices.IsSorted(found) {
		t.Errorf("%d: %v", len(found), found)
	}
}
