package policy

import (
	"context"

	"github.com/capgate/capgate/internal/lib/changefeed"
)

// Watch keeps the cache in sync with a feed until ctx ends. A gap in the feed is noticed within a second
// and invalidates everything. If the store has lost its rules, cached entries stay valid for MaxStale, and all other
// calls are rejected until the rules are restored, or an operator accepts the loss.
func (d *Decider) Watch(ctx context.Context, feed Feed) {
	changefeed.Run(ctx, &lossDetector{Feed: feed, d: d}, feedAdapter{d},
		changefeed.Options{Patience: d.opts.Timeout, MaxStale: d.opts.MaxStale})
}

// feedAdapter adapts a Decider to package changefeed.
type feedAdapter struct{ *Decider }

// Now implements changefeed.Cache, as the other methods do.
func (c feedAdapter) Now() int64 { return c.now() }

func (c feedAdapter) InvalidateAll() { c.Decider.Invalidate(Change{Everything: true}) }

// Invalidate handles a change of the feed.
func (c feedAdapter) Invalidate(change Change) { c.Decider.Invalidate(change) }

func (c feedAdapter) Synced(at int64) { c.synced(at) }

// StoreLost takes the feed's view of a loss. It reports only the end of one: the lossDetector finds a loss first.
func (c feedAdapter) StoreLost(lost bool) {
	if c.freshness.StoreLost(lost) && !lost {
		c.opts.Lost(false)
	}
}
