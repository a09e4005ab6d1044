package policy

import (
	"context"

	"github.com/capgate/capgate/internal/lib/changefeed"
)

// Feed delivers changes of the rules.
type Feed = changefeed.Feed[Change]

// Follow keeps the cache in sync with a feed until ctx ends. A gap in the feed is noticed within a second
// and invalidates everything. If the store has lost its rules, cached entries stay valid for MaxStale.
func (d *Decider) Follow(ctx context.Context, feed Feed) {
	changefeed.Run(ctx, feed, copied{d}, changefeed.Options{Patience: d.opts.Patience, MaxStale: d.opts.MaxStale})
}

// copied adapts a Decider to package changefeed.
type copied struct{ *Decider }

// Now implements changefeed.Cache, as the other methods do.
func (c copied) Now() int64 { return c.now() }

func (c copied) InvalidateAll() { c.Changed(Change{Everything: true}) }

// Invalidate handles a change of the feed.
func (c copied) Invalidate(change Change) { c.Changed(change) }

func (c copied) Synced(at int64) { c.hear(at) }

func (c copied) StoreLost(lost bool) { c.lost.Store(lost) }
