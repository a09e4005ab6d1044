package catalog

import (
	"context"
	"math/rand/v2"
	"sync"
	"time"

	"github.com/capgate/capgate/internal/lib/recovery"
)

const (
	// atOnce is how many capabilities one replica asks for their tools at one time.
	atOnce = 8
	// slack is by how much replicas may differ on when a fleet became healthy.
	slack = 3 * time.Second
	// margin is what a discovery may take besides its questions.
	margin = 3 * time.Second
	// firstRetry is when a failed discovery is tried again; each time it takes twice as long,
	// up to the interval.
	firstRetry = 5 * time.Second
	// youngEnough is how old a discovery may be to do for a replica that has just started: when
	// many start one after the other, a few of them ask.
	youngEnough = 30 * time.Second
	// busyWait is when to look again at what another replica is about to find out.
	busyWait = 5 * time.Second
)

// The defaults of an Author.
const (
	DefaultInterval = 5 * time.Minute
	DefaultTimeout  = 10 * time.Second
)

// Discoverer asks capabilities with dynamic tools which these are: when their fleet becomes
// healthy, and from time to time. Of all replicas one does, and another one when that dies.
type Discoverer struct {
	catalog *Catalog
	ask     Ask
	slots   chan struct{}
	wake    chan struct{}
	running sync.WaitGroup

	mu     sync.Mutex
	fleets map[string]*fleet
}

// fleet is when to ask a capability.
type fleet struct {
	seen    bool // it is known whether it is healthy
	healthy bool
	since   time.Time // a discovery that began before it does not count; zero: any does
	first   bool      // nothing was discovered, nor found to be, since this replica first saw it healthy
	due     time.Time
	busy    bool
	failed  int // discoveries in a row
}

// NewDiscoverer makes the Discoverer of a Catalog. Run runs it.
func NewDiscoverer(c *Catalog, ask Ask) *Discoverer {
	return &Discoverer{catalog: c, ask: ask, slots: make(chan struct{}, atOnce), wake: make(chan struct{}, 1), fleets: map[string]*fleet{}}
}

// Healthy tells whether a fleet can be asked. It does not block.
func (d *Discoverer) Healthy(capability string, healthy bool) {
	d.mu.Lock()
	defer d.mu.Unlock()
	f := d.fleet(capability)
	if healthy && !f.healthy {
		f.due, f.failed = time.Time{}, 0
		if f.seen { // it comes back, perhaps as another one
			f.since = time.Now()
		}
		f.first = !f.seen
	}
	f.seen, f.healthy = true, healthy
	select {
	case d.wake <- struct{}{}:
	default:
	}
}

// fleet finds one. The caller holds mu.
func (d *Discoverer) fleet(capability string) *fleet {
	f := d.fleets[capability]
	if f == nil {
		f = &fleet{}
		d.fleets[capability] = f
	}
	return f
}

// Run asks until ctx ends.
func (d *Discoverer) Run(ctx context.Context) {
	defer d.running.Wait()
	tick := time.NewTicker(d.catalog.opts.Round)
	defer tick.Stop()
	for {
		d.start(ctx)
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		case <-d.wake:
		}
	}
}

// start begins what is due.
func (d *Discoverer) start(ctx context.Context) {
	all := d.catalog.dynamic()
	now := time.Now()
	d.mu.Lock()
	defer d.mu.Unlock()
	for id := range d.fleets {
		if d.catalog.capability(id) == nil { // its tools may come to be asked for
			delete(d.fleets, id)
		}
	}
	for _, id := range all {
		f := d.fleets[id]
		if f == nil || !f.healthy || f.busy || now.Before(f.due) {
			continue
		}
		select {
		case d.slots <- struct{}{}:
		default:
			return // at the next tick
		}
		f.busy = true
		d.running.Go(func() {
			defer func() { <-d.slots }()
			if recovery.Do("discovery", func() error { d.turn(ctx, id); return nil }) != nil {
				d.mu.Lock()
				defer d.mu.Unlock()
				f.busy, f.due = false, time.Now().Add(afterPanic)
			}
		})
	}
}

// afterPanic is how long a capability is left alone whose answer this replica could not deal with.
const afterPanic = 5 * time.Minute

// turn asks a capability, if it is this replica's turn, and says when to look at it again.
func (d *Discoverer) turn(ctx context.Context, id string) {
	d.mu.Lock()
	f := d.fleet(id)
	before, failed, first := f.since, f.failed, f.first
	d.mu.Unlock()

	author, there := d.catalog.author(id)
	since, within, wait := before, author.Interval, author.Interval
	switch {
	case !since.IsZero():
		within = time.Since(since) + slack
	case failed > 0:
		within = 0
	case first:
		within = min(within, youngEnough)
	}
	if there {
		result := d.discover(ctx, id, &author, within)
		switch {
		case result.busy:
			wait = min(result.wait, busyWait)
		case result.late && since.IsZero() && first:
			wait, first = 0, false // it was not long ago, so that now the interval counts
		case result.late && since.IsZero():
			wait, failed = result.wait, 0
		case result.late:
			since, wait, failed = time.Time{}, 0, 0
		case result.err != nil:
			wait = min(wait, firstRetry<<min(failed, 16))
			failed++
		default:
			since, failed, first = time.Time{}, 0, false
		}
	}

	d.mu.Lock()
	defer d.mu.Unlock()
	f.busy = false
	if !f.since.Equal(before) {
		return // it came back meanwhile
	}
	// Replicas that wait for the same do not come at the same moment.
	f.since, f.failed, f.first, f.due = since, failed, first, time.Now().Add(wait+rand.N(wait/20+1))
}
