package approvals

import (
	"context"
	"maps"
	"sync/atomic"
	"time"
)

// backlogInterval is the interval of the counts.
const backlogInterval = 5 * time.Second

// Backlog describes a tenant's pending approvals.
type Backlog struct {
	Count  int
	Oldest time.Time // creation of the oldest one
}

// PendingSource counts pending approvals. A page of tenants may leave out those without approvals.
type PendingSource interface {
	Tenants(ctx context.Context, after string, most int) (page []string, next string, err error)
	Pending(ctx context.Context, tenant string) (Backlog, error)
}

// Backlogs counts pending approvals for metrics. It queries the store on its own schedule, not for a scrape,
// and only for tenants with events since their backlog was empty.
type Backlogs struct {
	snapshot atomic.Pointer[map[string]Backlog]
}

// Snapshot returns the last counts by tenant; other tenants have none. The map is immutable.
func (p *Backlogs) Snapshot() map[string]Backlog {
	if all := p.snapshot.Load(); all != nil {
		return *all
	}
	return nil
}

// Run counts until ctx ends. It listens to events of k, which must be running.
func (p *Backlogs) Run(ctx context.Context, k *Service, source PendingSource) {
	l := k.listeners.Join(listenerBuffer, nil)
	defer k.listeners.Leave(l)
	tick := time.NewTicker(backlogInterval)
	defer tick.Stop()
	heard, all := map[string]struct{}{}, true // all: every tenant may have had events
	for {
		if all {
			all = Tenants(source.Tenants).Each(ctx, func(tenant string) { heard[tenant] = struct{}{} }) != nil
		}
		p.count(ctx, source, heard)
		for waiting := true; waiting; {
			select {
			case <-ctx.Done():
				return
			case <-l.Missed:
				all = true
			case n := <-l.Values:
				heard[n.Tenant] = struct{}{}
			case <-tick.C:
				waiting = false
			}
		}
	}
}

// count counts the tenants with events. After an error the former counts stay.
func (p *Backlogs) count(ctx context.Context, source PendingSource, heard map[string]struct{}) {
	next := map[string]Backlog{}
	for tenant := range heard {
		found, err := source.Pending(ctx, tenant)
		if err != nil {
			next = maps.Clone(p.Snapshot()) // the store is unavailable: further counts would fail too
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
