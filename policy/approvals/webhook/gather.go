package webhook

import (
	"context"
	"slices"
	"sync"
	"time"

	"github.com/capgate/capgate/policy/approvals"
)

const (
	// gatherPage bounds the events of one read.
	gatherPage = 100
	// gatherAll is the interval of scans of all tenants: notifications get lost, and expirations cause none.
	gatherAll = 30 * time.Second
	// moreTenants bounds the tenants that are marked. Beyond it all tenants are scanned.
	moreTenants = 1000
)

// news holds the tenants whose events must be collected.
type news struct {
	wake chan struct{}

	mu      sync.Mutex
	tenants map[string]struct{}
	all     bool
	last    time.Time // time of the last scan
}

func newNews(tenants []string) *news {
	n := &news{wake: make(chan struct{}, 1), tenants: map[string]struct{}{}, all: true}
	for _, t := range tenants {
		n.tenants[t] = struct{}{}
	}
	return n
}

// of marks a tenant.
func (n *news) of(tenant string) {
	n.mu.Lock()
	if len(n.tenants) < moreTenants {
		n.tenants[tenant] = struct{}{}
	} else {
		n.all = true
	}
	n.mu.Unlock()
	n.signal()
}

// ofAll marks all tenants.
func (n *news) ofAll() {
	n.mu.Lock()
	n.all = true
	n.mu.Unlock()
	n.signal()
}

func (n *news) signal() {
	select {
	case n.wake <- struct{}{}:
	default:
	}
}

// take returns the marked tenants, and whether all others must be scanned too.
func (n *news) take(now time.Time) (tenants []string, all bool) {
	n.mu.Lock()
	defer n.mu.Unlock()
	for t := range n.tenants {
		tenants = append(tenants, t)
	}
	if all = n.all || now.Sub(n.last) >= gatherAll; all {
		n.last = now
	}
	clear(n.tenants)
	n.all = false
	return tenants, all
}

// heard is called for every event. Unwanted events do not mark the tenant; a later collection skips them.
func (d *Deliverer) heard(tenant string, kind approvals.Kind) {
	if slices.Contains(d.endpoint.Load().Kinds, kind) {
		d.news.of(tenant)
	}
}

// gather collects new events into the outbox.
func (d *Deliverer) gather(ctx context.Context) {
	tenants, all := d.news.take(d.opts.Now())
	if len(tenants) == 0 && !all {
		return
	}
	var asked []string // all
	if !all {
		asked = tenants
	}
	cursors, err := d.store.Cursors(ctx, asked)
	if err != nil { // the next poll retries
		d.again(tenants, all)
		return
	}
	for t := range cursors {
		if !slices.Contains(tenants, t) {
			tenants = append(tenants, t)
		}
	}
	for _, t := range tenants {
		if all && slices.Contains(d.endpoint.Load().Kinds, approvals.EventExpired) {
			d.expire(ctx, t)
		}
		if err := d.gatherFrom(ctx, t, cursors[t]); err != nil {
			d.again([]string{t}, false)
		}
	}
}

// expire records a tenant's expired approvals, which makes events of them.
func (d *Deliverer) expire(ctx context.Context, tenant string) {
	ids, err := d.store.Overdue(ctx, tenant, gatherPage)
	for i := 0; err == nil && i < len(ids); i++ {
		_, err = d.approvals.Get(ctx, tenant, ids[i])
	}
}

// again marks tenants that could not be read, without a wake-up: a retry at once would fail too.
func (d *Deliverer) again(tenants []string, all bool) {
	d.news.mu.Lock()
	defer d.news.mu.Unlock()
	d.news.all = d.news.all || all || len(d.news.tenants)+len(tenants) > moreTenants
	for _, t := range tenants { // also for a scan of all: the store does not list a new tenant
		if len(d.news.tenants) < moreTenants {
			d.news.tenants[t] = struct{}{}
		}
	}
}

// gatherFrom collects a tenant's events after a cursor.
func (d *Deliverer) gatherFrom(ctx context.Context, tenant, after string) error {
	for {
		events, next, err := d.store.Read(ctx, tenant, after, gatherPage)
		if err != nil || next == after {
			return err
		}
		more := len(events) == gatherPage
		kinds := d.endpoint.Load().Kinds
		wanted := slices.DeleteFunc(events, func(e Event) bool { return !slices.Contains(kinds, e.Kind) })
		dropped, err := d.store.Put(ctx, tenant, after, next, wanted, d.opts.Outbox)
		if err != nil {
			return err
		}
		d.counted.dropped.Add(int64(dropped))
		if dropped > 0 && !d.full.Swap(true) {
			d.opts.Log.Warn("webhook: the outbox is full, and events are dropped", "most", d.opts.Outbox)
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
