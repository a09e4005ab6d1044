package webhook

import (
	"context"
	"slices"
)

// Outbox is the outbox of a destination.
type Outbox struct {
	Name  string // of the destination
	Store Store
}

// Letters are the dead letters of all destinations.
type Letters []Outbox

// Dead returns letters of all destinations, the newest first, after the first skip.
func (all Letters) Dead(ctx context.Context, skip, most int) ([]Letter, error) {
	var found []Letter
	for _, box := range all {
		page, err := box.Store.Dead(ctx, 0, skip+most)
		if err != nil {
			return nil, err
		}
		for i := range page {
			page[i].Destination = box.Name
		}
		found = append(found, page...)
	}
	slices.SortStableFunc(found, func(a, b Letter) int { return b.Died.Compare(a.Died) })
	found = found[min(skip, len(found)):]
	return found[:min(most, len(found))], nil
}

// Retry puts a dead letter into its outbox as a new entry. Ids differ between destinations.
func (all Letters) Retry(ctx context.Context, id string) (bool, error) {
	for _, box := range all {
		if found, err := box.Store.Retry(ctx, id); found || err != nil {
			return found, err
		}
	}
	return false, nil
}
