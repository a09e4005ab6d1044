package policy

import (
	"context"

	"github.com/capgate/capgate/internal/lib/cache"
	"github.com/capgate/capgate/internal/lib/changefeed"
)

// Watch keeps the cache in sync with a feed until ctx ends. A gap in the feed is noticed within a second
// and invalidates everything. If the store has lost its rules, cached entries stay valid for MaxStale, and all other
// calls are rejected until the rules are restored, or an operator accepts the loss.
func (d *Decider) Watch(ctx context.Context, feed Feed) {
	changefeed.Run(ctx, &lossDetector{Feed: feed, d: d}, feedAdapter{d.freshness, d},
		changefeed.Options{Patience: d.opts.Timeout, MaxStale: d.opts.MaxStale})
}

// feedAdapter is a Decider as a changefeed.Cache.
type feedAdapter struct {
	*cache.Freshness
	d *Decider
}

func (c feedAdapter) Invalidate(change Change) { c.d.Invalidate(change) }

func (c feedAdapter) InvalidateAll() { c.d.Invalidate(Change{Everything: true}) }

func (c feedAdapter) Synced(at int64) { c.d.synced(at) }

// StoreLost records a loss in the view of the feed. It calls Lost only at its end: the lossDetector finds a loss first.
func (c feedAdapter) StoreLost(lost bool) (before bool) {
	if before = c.Freshness.StoreLost(lost); before && !lost {
		c.d.opts.Lost(false)
	}
	return before
}
