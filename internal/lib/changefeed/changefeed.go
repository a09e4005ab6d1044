package changefeed

import (
	"context"
	"sync"
	"sync/atomic"
	"time"
)

// Feed delivers changes, each of which is a C. Every change has a version, one more than the last.
type Feed[C any] interface {
	// Watch calls changed for each change as soon as it is made, until ctx ends. It may lose changes, and
	// calls connected after it has. It may repeat changes or reorder them.
	Watch(ctx context.Context, changed func(version uint64, c C), connected func())
	// Version returns the version of the last change, or 0 if there never was one. It must end with ctx.
	Version(ctx context.Context) (uint64, error)
}

// Cache is a replica's copy in memory. Times are nanoseconds of its own clock. A cache.Freshness has all methods but
// Invalidate and InvalidateAll.
type Cache[C any] interface {
	Now() int64
	// Invalidate and InvalidateAll mark values that have changed, or may have.
	Invalidate(c C)
	InvalidateAll()
	// Synced records that by then the cache knew of every change.
	Synced(at int64)
	// StoreLost records whether the shared store has lost data, so that its answers cannot be trusted. It reports
	// whether it had before.
	StoreLost(lost bool) (before bool)
}

// Options bound the time that a watcher waits. Both fields are required.
type Options struct {
	Patience time.Duration // timeout of one request
	MaxStale time.Duration // time in which lost data may be restored, before it counts as deleted
}

// round is the interval of the requests for the version. A change that is not delivered before the second
// version that includes it counts as lost. Concurrent changes may be delivered in any order.
const round = 500 * time.Millisecond

// maxAhead bounds the changes that are remembered because they arrived early.
const maxAhead = 10_000

// Run keeps a cache consistent with a feed until ctx ends. It notices within a second, by the version, that the
// feed has lost a change.
func Run[C any](ctx context.Context, feed Feed[C], cache Cache[C], o Options) {
	f := &watcher[C]{Options: o, cache: cache, feed: feed}
	f.connected.Store(true)
	Poll(ctx, "change", make(chan struct{}, 1), f.watch, func(ctx context.Context) time.Duration {
		f.look(ctx, !f.connected.Swap(false))
		return round
	})
}

// watcher compares the changes that it received with the store's version.
type watcher[C any] struct {
	Options
	cache Cache[C]
	feed  Feed[C]
	// The feed has connected since the last check: missed changes will not be delivered.
	connected atomic.Bool

	mu      sync.Mutex
	known   bool
	version uint64              // all changes up to it were received
	ahead   map[uint64]struct{} // changes received beyond it
	due     uint64              // version up to which changes should have been received by now
	asked   int64               // when due was the store's version
	since   int64               // when the store's loss was noticed; 0: it has lost nothing
}

// watch receives the changes of the feed until ctx ends. It calls look when the feed has connected.
func (f *watcher[C]) watch(ctx context.Context, look func()) {
	f.feed.Watch(ctx, f.changed, func() {
		f.connected.Store(true)
		look()
	})
}

func (f *watcher[C]) changed(version uint64, c C) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.cache.Invalidate(c)
	if !f.known || version <= f.version || len(f.ahead) == maxAhead { // a further change counts as lost
		return
	}
	if f.ahead == nil {
		f.ahead = map[uint64]struct{}{}
	}
	f.ahead[version] = struct{}{}
	f.advance()
}

// advance moves the version past all consecutive changes that were received.
func (f *watcher[C]) advance() {
	for len(f.ahead) > 0 {
		if _, received := f.ahead[f.version+1]; !received {
			return
		}
		f.version++
		delete(f.ahead, f.version)
	}
}

// look requests the version, and catches up with it. If it is patient, missing changes may still arrive before
// the next look.
func (f *watcher[C]) look(ctx context.Context, patient bool) {
	asked := f.cache.Now()
	ctx, cancel := context.WithTimeout(ctx, f.Patience)
	defer cancel()
	version, err := f.feed.Version(ctx)
	if err != nil {
		return
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.known && version == 0 && f.version > 0 && !f.givenUp(asked) {
		return
	}
	synced := asked
	switch {
	case f.known && version == f.version:
	case f.known && version > f.version && patient && f.version >= f.due:
		synced = f.asked
	default: // a change was lost, or a failover has undone the last one
		f.cache.InvalidateAll()
		f.known, f.version, f.ahead = true, version, nil
	}
	f.due, f.asked, f.since = version, asked, 0
	f.cache.StoreLost(false)
	f.cache.Synced(synced)
}

// givenUp reports whether lost data counts as deleted, for instance after Redis was restarted empty. It does so
// after MaxStale, or as soon as something changes. Until then cached values stay valid, other requests are
// refused, and operators have time to restore the data.
func (f *watcher[C]) givenUp(now int64) bool {
	if f.since == 0 {
		f.since = max(now, 1)
		f.cache.StoreLost(true)
	}
	return time.Duration(now-f.since) > f.MaxStale
}
