package policy

import (
	"context"
	"maps"
	"slices"

	"github.com/capgate/capgate/internal/call"
)

// ExplainAll returns the decisions on many calls, as Explain does for each, with few queries to the store. A nil store
// has no rules.
func (d *Decider) ExplainAll(ctx context.Context, calls []*call.Call, store Store) ([]Decision, error) {
	var stores []Store
	if store != nil {
		b := newBatch(store.Find)
		for _, c := range calls { // to learn the names of the rules
			if _, _, err := d.Explain(ctx, c, b); err != nil {
				return nil, err
			}
		}
		if err := b.load(ctx); err != nil {
			return nil, err
		}
		stores = append(stores, b)
	}
	decisions := make([]Decision, len(calls))
	for i, c := range calls {
		decision, _, err := d.Explain(ctx, c, stores...)
		if err != nil {
			return nil, err
		}
		decisions[i] = decision
	}
	return decisions, nil
}

// batch is a Store of the rules that were requested before it was loaded. Until then it has none.
type batch struct {
	find  func(ctx context.Context, tenant string, names []Name) ([]Found, error)
	found map[string]map[Name]Found // by tenant
}

func newBatch(find func(ctx context.Context, tenant string, names []Name) ([]Found, error)) *batch {
	return &batch{find: find, found: map[string]map[Name]Found{}}
}

// Find implements Store.
func (b *batch) Find(_ context.Context, tenant string, names []Name) ([]Found, error) {
	found := make([]Found, len(names))
	for i, n := range names {
		found[i] = b.get(tenant, n)
	}
	return found, nil
}

// get returns a rule, and requests it.
func (b *batch) get(tenant string, n Name) Found {
	all := b.found[tenant]
	if all == nil {
		all = map[Name]Found{}
		b.found[tenant] = all
	}
	found := all[n]
	all[n] = found
	return found
}

// load queries the store for all requested rules, with few queries for each tenant.
func (b *batch) load(ctx context.Context) error {
	for tenant, found := range b.found {
		for names := range slices.Chunk(slices.Collect(maps.Keys(found)), maxNamesPerQuery) {
			answers, err := b.find(ctx, tenant, names)
			if err != nil {
				return err
			}
			for i, n := range names[:min(len(names), len(answers))] {
				found[n] = answers[i]
			}
		}
	}
	return nil
}
