package webhook

import (
	"context"
	"slices"
	"sync"
	"time"

	"github.com/capgate/capgate/policy/approvals"
)

const (
	// eventsPage bounds the events of one read.
	eventsPage = 100
	// scanInterval is the interval of scans of all tenants: notifications get lost, and expirations cause none.
	scanInterval = 30 * time.Second
	// maxDirty bounds the tenants that are marked. Beyond it all tenants are scanned.
	maxDirty = 1000
)

// dirtyTenants holds the tenants whose events must be collected.
type dirtyTenants struct {
	wake chan struct{}

	mu      sync.Mutex
	tenants map[string]struct{}
	all     bool
	last    time.Time // time of the last scan
}

func newDirtyTenants(tenants []string) *dirtyTenants {
	n := &dirtyTenants{wake: make(chan struct{}, 1), tenants: map[string]struct{}{}, all: true}
	for _, t := range tenants {
		n.tenants[t] = struct{}{}
	}
	return n
}

// mark marks a tenant.
func (n *dirtyTenants) mark(tenant string) {
	n.mu.Lock()
	if len(n.tenants) < maxDirty {
		n.tenants[tenant] = struct{}{}
	} else {
		n.all = true
	}
	n.mu.Unlock()
	n.signal()
}

// markAll marks all tenants.
func (n *dirtyTenants) markAll() {
	n.mu.Lock()
	n.all = true
	n.mu.Unlock()
	n.signal()
}

func (n *dirtyTenants) signal() {
	select {
	case n.wake <- struct{}{}:
	default:
	}
}

// take returns the marked tenants, and whether all others must be scanned too.
func (n *dirtyTenants) take(now time.Time) (tenants []string, all bool) {
	n.mu.Lock()
	defer n.mu.Unlock()
	for t := range n.tenants {
		tenants = append(tenants, t)
	}
	if all = n.all || now.Sub(n.last) >= scanInterval; all {
		n.last = now
	}
	clear(n.tenants)
	n.all = false
	return tenants, all
}

// onEvent is called for every event. Unwanted events do not mark the tenant; a later collection skips them.
func (d *Deliverer) onEvent(tenant string, kind approvals.Kind) {
	if to := d.endpoint.Load(); to.wantsKind(kind) && to.wants(tenant) {
		d.dirty.mark(tenant)
	}
}

// collect collects new events into the outbox.
func (d *Deliverer) collect(ctx context.Context) {
	tenants, all := d.dirty.take(d.opts.Now())
	if len(tenants) == 0 && !all {
		return
	}
	var filter []string // all
	if !all {
		filter = tenants
	}
	cursors, err := d.store.Cursors(ctx, filter)
	if err != nil { // the next poll retries
		d.remark(tenants, all)
		return
	}
	for t := range cursors {
		if !slices.Contains(tenants, t) {
			tenants = append(tenants, t)
		}
	}
	to := d.endpoint.Load()
	for _, t := range tenants {
		if !to.wants(t) {
			continue
		}
		if all && to.wantsKind(approvals.EventExpired) {
			d.expire(ctx, t)
		}
		if err := d.collectFrom(ctx, t, cursors[t]); err != nil {
			d.remark([]string{t}, false)
		}
	}
}

// expire records a tenant's expired approvals, which makes events of them.
func (d *Deliverer) expire(ctx context.Context, tenant string) {
	ids, err := d.store.Overdue(ctx, tenant, eventsPage)
	for i := 0; err == nil && i < len(ids); i++ {
		_, err = d.approvals.Get(ctx, tenant, ids[i])
	}
}

// remark marks tenants that could not be read, without a wake-up: a retry at once would fail too.
func (d *Deliverer) remark(tenants []string, all bool) {
	d.dirty.mu.Lock()
	defer d.dirty.mu.Unlock()
	d.dirty.all = d.dirty.all || all || len(d.dirty.tenants)+len(tenants) > maxDirty
	for _, t := range tenants { // also for a scan of all: the store does not list a new tenant
		if len(d.dirty.tenants) < maxDirty {
			d.dirty.tenants[t] = struct{}{}
		}
	}
}

// collectFrom collects a tenant's events after a cursor.
func (d *Deliverer) collectFrom(ctx context.Context, tenant, after string) error {
	for {
		events, next, err := d.store.Read(ctx, tenant, after, eventsPage)
		if err != nil || next == after {
			return err
		}
		more := len(events) == eventsPage
		to := d.endpoint.Load()
		wanted := slices.DeleteFunc(events, func(e Event) bool { return !to.wantsKind(e.Kind) })
		dropped, err := d.store.Put(ctx, tenant, after, next, wanted, d.opts.Outbox)
		if err != nil {
			return err
		}
		d.counters.dropped.Add(int64(dropped))
		if dropped > 0 && !d.full.Swap(true) {
			d.opts.Log.Warn("webhook: the outbox is full, and events are dropped", "destination", d.Name(), "most", d.opts.Outbox)
		}
		if dropped == 0 && len(wanted) > 0 {
			d.full.Store(false)
		}
		if !more {
			return nil
		}
		after = next
	}
}
