package policy

import (
	"context"

	"github.com/capgate/capgate/internal/lib/changefeed"
)

// Feed tells of changes of the rules.
type Feed = changefeed.Feed[Change]

// Follow keeps the cache true to a feed until ctx ends. What the feed loses is noticed
// within a second; then everything is asked for anew. Where the store has lost its rules,
// what is known goes on for MaxStale.
func (d *Decider) Follow(ctx context.Context, feed Feed) {
	changefeed.Run(ctx, feed, copied{d}, changefeed.Options{Patience: d.opts.Patience, MaxStale: d.opts.MaxStale})
}

// copied is a Decider as package changefeed sees it.
type copied struct{ *Decider }

// Now implements changefeed.Cache, as the other methods do.
func (c copied) Now() int64 { return c.now() }

func (c copied) InvalidateAll() { c.Changed(Change{Everything: true}) }

// Invalidate handles a change of the feed.
func (c copied) Invalidate(change Change) { c.Changed(change) }

func (c copied) Synced(at int64) { c.hear(at) }

func (c copied) StoreLost(lost bool) { c.lost.Store(lost) }
