package webhook

import (
	"context"
	"slices"
	"sync"

	"github.com/capgate/capgate/internal/lib/recovery"
	"github.com/capgate/capgate/internal/lib/signal"
	"github.com/capgate/capgate/policy/approvals"
)

// Group is a changing set of Deliverers. They share the feed of events and nothing else, so that none waits for
// another. It is safe for concurrent use.
type Group struct {
	mu      sync.Mutex
	all     []*Deliverer // immutable
	changed chan struct{}
}

// NewGroup returns a Group without Deliverers.
func NewGroup() *Group { return &Group{changed: make(chan struct{}, 1)} }

// All returns the Deliverers. The result must not be changed.
func (g *Group) All() []*Deliverer {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.all
}

// Replace replaces the destinations. Those that exist go on with new settings, and create makes others. After an error
// nothing has changed but settings.
func (g *Group) Replace(configs []Config, create func(Config) (*Deliverer, error)) error {
	g.mu.Lock()
	defer g.mu.Unlock()
	next := make([]*Deliverer, 0, len(configs))
	for _, c := range configs {
		var err error
		i := slices.IndexFunc(g.all, func(d *Deliverer) bool { return d.Name() == c.Name })
		if i >= 0 {
			next = append(next, g.all[i])
			err = g.all[i].Set(c)
		} else {
			var d *Deliverer
			d, err = create(c)
			next = append(next, d)
		}
		if err != nil {
			return err
		}
	}
	g.all = next
	signal.Wake(g.changed)
	return nil
}

// Run delivers to all destinations until ctx ends. Requests in flight are then canceled, and left to other replicas; so
// are those to a destination that is removed.
func (g *Group) Run(ctx context.Context) {
	var running sync.WaitGroup
	defer running.Wait()
	stops := map[*Deliverer]context.CancelFunc{}
	for ctx.Err() == nil {
		all := g.All()
		for d, stop := range stops {
			if !slices.Contains(all, d) {
				stop()
				delete(stops, d)
			}
		}
		for _, d := range all {
			if stops[d] == nil {
				until, stop := context.WithCancel(ctx)
				stops[d] = stop
				running.Go(func() { d.run(until) })
			}
		}
		g.feed(ctx, all)
	}
	for _, stop := range stops {
		stop()
	}
}

// feed notifies Deliverers of events until ctx ends or the set changes. Deliverers poll for missed events.
func (g *Group) feed(ctx context.Context, all []*Deliverer) {
	until, stop := context.WithCancel(ctx)
	var feeding sync.WaitGroup
	defer feeding.Wait()
	defer stop()
	if len(all) > 0 {
		feeding.Go(recovery.Loop(until, "webhook feed", func() {
			all[0].store.Watch(until, func(tenant string, kind approvals.Kind) {
				for _, d := range all {
					d.onEvent(tenant, kind)
				}
			}, func() {
				for _, d := range all {
					d.dirty.markAll()
				}
			})
		}))
	}
	select {
	case <-ctx.Done():
	case <-g.changed:
	}
}
