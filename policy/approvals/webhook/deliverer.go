package webhook

import (
	"context"
	"log/slog"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"time"

	"github.com/capgate/capgate/internal/lib/recovery"
	"github.com/capgate/capgate/policy/approvals"
)

const (
	// workers bounds the concurrent requests of a replica.
	workers = 8
	// leaseMargin is the duration of a lease beyond its request's timeout.
	leaseMargin = 20 * time.Second
)

// Approvals returns approvals. Get's error is a *call.Refusal: NotFound if there is none.
type Approvals interface {
	Get(ctx context.Context, tenant, id string) (approvals.Approval, error)
}

// Options of a Deliverer. The zero value is usable.
type Options struct {
	BackoffBase time.Duration // the longest wait after the first attempt; default 1 s; doubled by each attempt
	BackoffMax  time.Duration // the longest wait, also for a receiver's Retry-After; default 10 min
	Poll        time.Duration // interval of the polls for events without a notification; default 2 s
	// Outbox bounds the waiting events of all tenants; one tenant may use four fifths of it; default 10,000.
	Outbox int
	Dead   int // maximum number of dead letters; default 1,000

	Tenants approvals.Tenants // tenants that may have missed notifications; default: none
	Log     *slog.Logger      // default: none
	Now     func() time.Time
}

func (o *Options) setDefaults() {
	for d, standard := range map[*time.Duration]time.Duration{
		&o.BackoffBase: time.Second, &o.BackoffMax: 10 * time.Minute, &o.Poll: 2 * time.Second,
	} {
		if *d == 0 {
			*d = standard
		}
	}
	for n, standard := range map[*int]int{&o.Outbox: 10_000, &o.Dead: 1000} {
		if *n == 0 {
			*n = standard
		}
	}
	if o.Tenants == nil {
		o.Tenants = func(context.Context, string, int) ([]string, string, error) { return nil, "", nil }
	}
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	if o.Now == nil {
		o.Now = time.Now
	}
}

// Deliverer delivers events to one destination, in one replica. It is safe for concurrent use.
type Deliverer struct {
	store     Store
	approvals Approvals
	render    Render
	opts      Options
	endpoint  atomic.Pointer[endpoint]
	dirty     *dirtyTenants
	near      nearEvents
	counters  counters
	full      atomic.Bool // the full outbox was logged
	failing   atomic.Bool // the failure of the receiver was logged
}

// New returns the Deliverer of a destination, or an error for an invalid Config.
func New(store Store, of Approvals, render Render, c Config, o Options) (*Deliverer, error) {
	o.setDefaults()
	d := &Deliverer{store: store, approvals: of, render: render, opts: o, dirty: newDirtyTenants()}
	return d, d.Set(c)
}

// Name returns the destination's name.
func (d *Deliverer) Name() string { return d.endpoint.Load().Name }

// Set replaces the Config, from the next request on.
func (d *Deliverer) Set(c Config) error {
	if err := c.setDefaults(); err != nil {
		return err
	}
	if before := d.endpoint.Swap(newEndpoint(c)); before != nil {
		before.close()
	}
	return nil
}

// run delivers to one destination.
func (d *Deliverer) run(ctx context.Context) {
	var running sync.WaitGroup
	defer running.Wait()
	defer func() { d.endpoint.Load().close() }()
	work, free := make(chan Entry), make(chan struct{}, workers)
	for range workers {
		free <- struct{}{}
		running.Go(func() {
			for e := range work {
				recovery.Round("webhook", func() { d.deliver(ctx, &e) })
				free <- struct{}{}
			}
		})
	}
	defer close(work)
	permits := 0 // permits that this loop has taken from free
	for ctx.Err() == nil {
		d.collect(ctx)
		for permits < workers && len(free) > 0 {
			<-free
			permits++
		}
		again := d.opts.Poll*3/4 + rand.N(d.opts.Poll/4) // jitter, so that replicas do not synchronize
		var freed <-chan struct{}                        // nil unless all workers are busy
		if permits > 0 {
			entries, next := d.lease(ctx, permits)
			for i := range entries {
				work <- entries[i] // each has an idle worker
			}
			permits -= len(entries)
			again = min(again, next)
		}
		if permits == 0 {
			again, freed = d.opts.Poll, free
		}
		if d.wait(ctx, again, freed) {
			permits++
		}
	}
}

// wait waits until there may be work. It returns true if it has taken a permit from freed.
func (d *Deliverer) wait(ctx context.Context, most time.Duration, freed <-chan struct{}) bool {
	t := time.NewTimer(most)
	defer t.Stop()
	select {
	case <-ctx.Done():
	case <-d.dirty.wake:
	case <-t.C:
	case <-freed:
		return true
	}
	return false
}

// lease leases due entries, and returns the time until the next poll.
func (d *Deliverer) lease(ctx context.Context, most int) ([]Entry, time.Duration) {
	entries, next, sizes, err := d.store.Lease(ctx, most, d.endpoint.Load().Timeout+leaseMargin)
	if err != nil {
		return nil, d.opts.Poll
	}
	d.counters.queued.Store(int64(sizes.Queued))
	d.counters.letters.Store(int64(sizes.Dead))
	if next == 0 {
		next = d.opts.Poll
	}
	return entries, next
}
