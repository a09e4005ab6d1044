package webhook

import (
	"context"
	"slices"
	"sync"
	"time"

	"github.com/capgate/capgate/policy/approvals"
)

const (
	// gatherPage is how many events are read at once.
	gatherPage = 100
	// gatherAll is how often all tenants are looked at: notices get lost, and what expires
	// gives none.
	gatherAll = 30 * time.Second
	// moreTenants bounds those that are remembered to have news. Beyond it all that
	// the store knows are looked at.
	moreTenants = 1000
)

// news is which tenants' events have to be gathered.
type news struct {
	wake chan struct{}

	mu      sync.Mutex
	tenants map[string]struct{}
	all     bool
	last    time.Time // when all were looked at
}

func newNews(tenants []string) *news {
	n := &news{wake: make(chan struct{}, 1), tenants: map[string]struct{}{}, all: true}
	for _, t := range tenants {
		n.tenants[t] = struct{}{}
	}
	return n
}

// of says that a tenant has some.
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

// ofAll says that nobody knows which have.
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

// take answers with those that have news, and whether all others may have some, too.
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

// heard is told of every event as it happens. Of those that are not wanted the cursor moves
// when there is another reason to look.
func (d *Deliverer) heard(tenant string, kind approvals.Kind) {
	if slices.Contains(d.endpoint.Load().Kinds, kind) {
		d.news.of(tenant)
	}
}

// gather brings new events into the outbox.
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
	if err != nil { // the poll comes again
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

// expire has a tenant's approvals that are over noted, so that there are events of it.
func (d *Deliverer) expire(ctx context.Context, tenant string) {
	ids, err := d.store.Overdue(ctx, tenant, gatherPage)
	for i := 0; err == nil && i < len(ids); i++ {
		_, err = d.approvals.Get(ctx, tenant, ids[i])
	}
}

// again remembers what could not be looked at, and wakes nobody: it would not go better.
func (d *Deliverer) again(tenants []string, all bool) {
	d.news.mu.Lock()
	defer d.news.mu.Unlock()
	d.news.all = d.news.all || all || len(d.news.tenants)+len(tenants) > moreTenants
	for _, t := range tenants { // also if all are looked at: the store does not know one that is new
		if len(d.news.tenants) < moreTenants {
			d.news.tenants[t] = struct{}{}
		}
	}
}

// gatherFrom brings a tenant's events after a cursor.
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
			d.opts.Log.Warn("webhook: the outbox is full, so that some of what happens to approvals is not told", "most", d.opts.Outbox)
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
