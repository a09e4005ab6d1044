package catalog

import (
	"context"
	"math/rand/v2"
	"slices"
	"sync"
	"time"

	"github.com/capgate/capgate/internal/lib/backoff"
	"github.com/capgate/capgate/internal/lib/recovery"
	"github.com/capgate/capgate/internal/lib/semaphore"
	"github.com/capgate/capgate/internal/lib/signal"
	"github.com/capgate/capgate/internal/lib/tokenbucket"
)

const (
	// maxDiscoveries bounds the concurrent discoveries of one replica.
	maxDiscoveries = 8
	// maxParsing bounds how many of them compile schemas. A capability has one of these at most.
	maxParsing = 2
	// clockSlack is the difference between replicas in the time at which they see a fleet as healthy.
	clockSlack = 3 * time.Second
	// margin is the time that a discovery may take besides its calls.
	margin = 3 * time.Second
	// firstRetry is the delay before the first retry of a failed discovery. It doubles with each
	// failure, up to the interval.
	firstRetry = 5 * time.Second
	// startupMaxAge is the age up to which a replica that has just started accepts a discovery: when many
	// replicas start one after the other, only a few of them discover.
	startupMaxAge = 30 * time.Second
	// busyRetry is the time after which the result of another replica's discovery is checked.
	busyRetry = 5 * time.Second
)

// DefaultTimeout is the timeout of one call of a discovery tool.
const DefaultTimeout = 10 * time.Second

// Discoverer calls the discovery tools of capabilities with dynamic tools: when their fleet becomes
// healthy, and periodically. One replica at a time does so, and another one when that replica dies.
type Discoverer struct {
	catalog  *Catalog
	callTool CallTool
	permits  chan struct{}
	work     *semaphore.Semaphore // of the CPU work of discoveries, by capability
	wake     chan struct{}
	running  sync.WaitGroup

	mu     sync.Mutex
	fleets map[string]*fleet
}

// fleet is the discovery schedule of a capability.
type fleet struct {
	seen    bool // its health is known
	healthy bool
	since   time.Time     // earlier discoveries do not count; zero: any does
	slack   time.Duration // before since, in which another replica's discovery counts, too
	first   bool          // no discovery was made or found since this replica first saw it healthy
	due     time.Time
	changed time.Time           // when a change is or was looked at
	pending bool                // discovery has not started
	changes *tokenbucket.Bucket // discoveries because of changes
	busy    bool
	failed  int // consecutive discoveries
}

// NewDiscoverer returns the Discoverer of a Catalog. Run must be called.
func NewDiscoverer(c *Catalog, ask CallTool) *Discoverer {
	return &Discoverer{
		catalog: c, callTool: ask, permits: make(chan struct{}, maxDiscoveries), wake: make(chan struct{}, 1),
		work: semaphore.New(maxParsing, maxDiscoveries), fleets: map[string]*fleet{},
	}
}

// Healthy records whether a fleet is healthy. It does not block.
func (d *Discoverer) Healthy(capability string, healthy bool) {
	d.mu.Lock()
	defer d.mu.Unlock()
	f := d.fleet(capability)
	if healthy && !f.healthy {
		f.due, f.failed = time.Time{}, 0
		if f.seen && f.since.IsZero() { // it recovered, perhaps with another version
			f.since, f.slack = time.Now(), clockSlack
		}
		f.first = !f.seen
	}
	f.seen, f.healthy = true, healthy
	signal.Wake(d.wake)
}

// Discoveries because of changes are at least changeGap apart, except for changeBurst of them.
const (
	changeGap   = 5 * time.Second
	changeBurst = 5
)

// Changed records that a capability's backends say that their tools have changed. It does not block.
func (d *Discoverer) Changed(capability string) {
	now := time.Now()
	d.mu.Lock()
	defer d.mu.Unlock()
	f := d.fleet(capability)
	if !f.pending { // else many changes in a row would defer it again and again
		f.changed, f.pending = now.Add(f.changes.Spend(now, 1)), true
	}
	f.since, f.slack, f.due, f.failed = now, 0, f.changed, 0
	signal.Wake(d.wake)
}

// fleet returns the schedule of a capability. The caller holds mu.
func (d *Discoverer) fleet(capability string) *fleet {
	f := d.fleets[capability]
	if f == nil {
		f = &fleet{changes: tokenbucket.New(changeBurst, changeGap)}
		d.fleets[capability] = f
	}
	return f
}

// Run runs discoveries until ctx ends.
func (d *Discoverer) Run(ctx context.Context) {
	defer d.running.Wait()
	for ctx.Err() == nil {
		d.start(ctx)
		signal.Wait(ctx, d.wake, d.catalog.opts.Round)
	}
}

// start begins the due discoveries.
func (d *Discoverer) start(ctx context.Context) {
	dynamic := d.catalog.dynamic()
	now := time.Now()
	d.mu.Lock()
	defer d.mu.Unlock()
	for id := range d.fleets {
		if d.catalog.capability(id) == nil { // its tools are no longer discovered
			delete(d.fleets, id)
		}
	}
	// The longest due goes first, so that fleets with slow discoveries leave permits to all others.
	slices.SortFunc(dynamic, func(a, b string) int { return d.fleet(a).due.Compare(d.fleet(b).due) })
	for _, id := range dynamic {
		f := d.fleets[id]
		if f == nil || !f.healthy || f.busy || now.Before(f.due) {
			continue
		}
		select {
		case d.permits <- struct{}{}:
		default:
			return // at the next tick
		}
		f.busy = true
		d.running.Go(func() {
			defer func() { <-d.permits }()
			if recovery.Do("discovery", func() error { d.runDue(ctx, id); return nil }) != nil {
				d.mu.Lock()
				defer d.mu.Unlock()
				f.busy, f.due = false, time.Now().Add(afterPanic)
			}
		})
	}
}

// afterPanic is the pause after a discovery that panicked.
const afterPanic = 5 * time.Minute

// runDue runs a due discovery, and schedules the next one.
func (d *Discoverer) runDue(ctx context.Context, id string) {
	d.mu.Lock()
	f := d.fleet(id)
	before, slack, failed, first := f.since, f.slack, f.failed, f.first
	f.pending = false
	d.mu.Unlock()

	author, there := d.catalog.declaration(id)
	since, within, wait := before, author.Discovery.Interval, author.Discovery.Interval
	switch {
	case !since.IsZero():
		within = time.Since(since) + slack
	case failed > 0:
		within = 0
	case first:
		within = min(within, startupMaxAge)
	}
	if there {
		result := d.discover(ctx, id, &author, within)
		switch {
		case result.busy:
			wait = min(result.wait, busyRetry)
		case result.recent && since.IsZero() && first:
			wait, first = 0, false // a recent discovery exists: the interval applies from now on
		case result.recent && since.IsZero():
			wait, failed = result.wait, 0
		case result.recent:
			since, wait, failed = time.Time{}, 0, 0
		case result.err != nil:
			wait = backoff.After(failed, firstRetry, wait)
			failed++
		default:
			since, failed, first = time.Time{}, 0, false
		}
	}

	d.mu.Lock()
	defer d.mu.Unlock()
	f.busy = false
	if !f.since.Equal(before) {
		return // the fleet recovered meanwhile
	}
	// The jitter keeps replicas from competing for the lease at the same moment.
	f.since, f.failed, f.first, f.due = since, failed, first, time.Now().Add(wait+rand.N(wait/20+1))
}
