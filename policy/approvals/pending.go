package approvals

import (
	"context"
	"maps"
	"sync/atomic"
	"time"
)

const (
	// backlogInterval is how often what is pending is counted.
	backlogInterval = 5 * time.Second
	// tenantsPage is how many tenants are looked at in one step.
	tenantsPage = 1000
)

// Backlog is what of a tenant waits for an answer.
type Backlog struct {
	Count  int
	Oldest time.Time // when the oldest of them was asked for
}

// PendingSource is what counts need. A page of tenants may leave out those that have no approvals.
type PendingSource interface {
	Tenants(ctx context.Context, after string, most int) (page []string, next string, err error)
	Pending(ctx context.Context, tenant string) (Backlog, error)
}

// Backlogs counts, for metrics, which approvals wait for an answer. It asks the store by itself, never for a scrape,
// and only for tenants of which it has heard something since nothing of theirs was pending.
type Backlogs struct {
	snapshot atomic.Pointer[map[string]Backlog]
}

// Snapshot is what was pending when it was counted last, by tenant; others have none. It must not be changed.
func (p *Backlogs) Snapshot() map[string]Backlog {
	if all := p.snapshot.Load(); all != nil {
		return *all
	}
	return nil
}

// Run counts until ctx ends. It hears of approvals from k, which has to run.
func (p *Backlogs) Run(ctx context.Context, k *Service, source PendingSource) {
	l := k.listeners.add()
	defer k.listeners.remove(l)
	tick := time.NewTicker(backlogInterval)
	defer tick.Stop()
	heard, all := map[string]struct{}{}, true // all: nobody knows of whom nothing was heard
	for {
		if all {
			all = !p.listTenants(ctx, source, heard)
		}
		p.count(ctx, source, heard)
		for waiting := true; waiting; {
			select {
			case <-ctx.Done():
				return
			case <-l.lost:
				all = true
			case n := <-l.notifications:
				heard[n.Tenant] = struct{}{}
			case <-tick.C:
				waiting = false
			}
		}
	}
}

// listTenants has all tenants looked at that have approvals, and says whether they are known.
func (p *Backlogs) listTenants(ctx context.Context, source PendingSource, heard map[string]struct{}) bool {
	for after := ""; ; {
		page, next, err := source.Tenants(ctx, after, tenantsPage)
		if err != nil {
			return false
		}
		for _, tenant := range page {
			heard[tenant] = struct{}{}
		}
		if after = next; after == "" {
			return true
		}
	}
}

// count looks at those of whom something was heard. What cannot be counted stays as it was.
func (p *Backlogs) count(ctx context.Context, source PendingSource, heard map[string]struct{}) {
	next := map[string]Backlog{}
	for tenant := range heard {
		found, err := source.Pending(ctx, tenant)
		if err != nil {
			next = maps.Clone(p.Snapshot()) // the store is away: others would not be counted either
			break
		}
		if found.Count == 0 {
			delete(heard, tenant)
			continue
		}
		next[tenant] = found
	}
	p.snapshot.Store(&next)
}
