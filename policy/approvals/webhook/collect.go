package webhook

import (
	"context"
	"slices"
	"sync"
	"time"

	"github.com/capgate/capgate/internal/lib/signal"
	"github.com/capgate/capgate/policy/approvals"
)

const (
	// eventsPage bounds the events of one read.
	eventsPage = 100
	// scanInterval is the interval of scans of all tenants that had events: expirations cause no notification.
	scanInterval = 30 * time.Second
	// maxDirty bounds the tenants that are marked. Beyond it all tenants are.
	maxDirty = 1000
)

// dirtyTenants holds the tenants with events to collect.
type dirtyTenants struct {
	wake chan struct{}

	mu      sync.Mutex
	tenants map[string]struct{}
	all     bool      // any tenant may have events, also one that never had any
	last    time.Time // time of the last scan
}

func newDirtyTenants() *dirtyTenants {
	return &dirtyTenants{wake: make(chan struct{}, 1), tenants: map[string]struct{}{}, all: true}
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
	signal.Wake(n.wake)
}

// markAll marks all tenants.
func (n *dirtyTenants) markAll() {
	n.mu.Lock()
	n.all = true
	n.mu.Unlock()
	signal.Wake(n.wake)
}

// take returns the marked tenants, whether all tenants are marked, and whether a scan is due.
func (n *dirtyTenants) take(now time.Time) (tenants []string, all, scan bool) {
	n.mu.Lock()
	defer n.mu.Unlock()
	for t := range n.tenants {
		tenants = append(tenants, t)
	}
	all = n.all
	if scan = all || now.Sub(n.last) >= scanInterval; scan {
		n.last = now
	}
	clear(n.tenants)
	n.all = false
	return tenants, all, scan
}

// onEvent is called for every event. Unwanted events do not mark the tenant, except those after which the scans have to
// find its expired approvals; a later collection skips them.
func (d *Deliverer) onEvent(tenant string, kind approvals.Kind) {
	to := d.endpoint.Load()
	expires := kind == approvals.EventCreated && to.wantsKind(approvals.EventExpired)
	if to.wants(tenant) && (to.wantsKind(kind) || expires) {
		d.dirty.mark(tenant)
	}
}

// collect collects new events into the outbox.
func (d *Deliverer) collect(ctx context.Context) {
	d.putNear(ctx, d.near.take())
	tenants, all, scan := d.dirty.take(d.opts.Now())
	var err error
	if all {
		err = d.opts.Tenants.Pages(ctx, func(page []string) error { return d.collectOf(ctx, page) })
	}
	if err == nil && scan {
		err = d.scan(ctx)
	}
	if err == nil {
		err = d.collectOf(ctx, tenants)
	}
	if err != nil { // the next poll retries
		d.remark(tenants, scan)
	}
}

// collectOf collects the events of tenants.
func (d *Deliverer) collectOf(ctx context.Context, tenants []string) error {
	if len(tenants) == 0 {
		return nil
	}
	cursors, err := d.store.Cursors(ctx, tenants)
	if err != nil {
		return err
	}
	for _, t := range tenants {
		d.collectFrom(ctx, t, cursors[t])
	}
	return nil
}

// scan collects the events of all tenants with a cursor, and makes events of what has expired.
func (d *Deliverer) scan(ctx context.Context) error {
	cursors, err := d.store.Cursors(ctx, nil)
	if err != nil {
		return err
	}
	for t, cursor := range cursors {
		if to := d.endpoint.Load(); to.wants(t) && to.wantsKind(approvals.EventExpired) {
			d.expire(ctx, t)
		}
		d.collectFrom(ctx, t, cursor)
	}
	return nil
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
	for _, t := range tenants {
		if len(d.dirty.tenants) < maxDirty {
			d.dirty.tenants[t] = struct{}{}
		}
	}
}

// collectFrom collects a tenant's events after a cursor, if the destination gets them.
func (d *Deliverer) collectFrom(ctx context.Context, tenant, cursor string) {
	if d.endpoint.Load().wants(tenant) && d.move(ctx, tenant, cursor) != nil {
		d.remark([]string{tenant}, false)
	}
}

// move moves a tenant's events after a cursor into the outbox.
func (d *Deliverer) move(ctx context.Context, tenant, after string) error {
	for {
		events, next, err := d.store.Read(ctx, tenant, after, eventsPage)
		if err != nil || next == after {
			return err
		}
		more := len(events) == eventsPage
		to := d.endpoint.Load()
		wanted := slices.DeleteFunc(events, func(e Event) bool { return !to.wantsKind(e.Kind) })
		if err := d.put(ctx, tenant, after, next, wanted); err != nil || !more {
			return err
		}
		after = next
	}
}

// put puts a tenant's events into the outbox, and counts those that do not fit.
func (d *Deliverer) put(ctx context.Context, tenant, after, next string, events []Event) error {
	dropped, err := d.store.Put(ctx, tenant, after, next, events, d.opts.Outbox)
	if err != nil {
		return err
	}
	d.counters.dropped.Add(int64(dropped))
	if dropped > 0 && !d.full.Swap(true) {
		d.opts.Log.Warn("webhook: the outbox is full, and events are dropped", "destination", d.Name(), "most",
			d.opts.Outbox)
	}
	if dropped == 0 && len(events) > 0 {
		d.full.Store(false)
	}
	return nil
}
