package policy

import (
	"context"
	"sync"
	"time"
)

// Feed tells of changes of the rules. Every change has a version, one more than the last.
type Feed interface {
	// Follow calls told for each change until ctx ends, as soon as it is made. It may lose
	// some, and says with connected when it may have; it may tell some twice, or in another order.
	Follow(ctx context.Context, told func(version uint64, c Change), connected func())
	// Version is the last change's, 0 where there never was one. It must end with ctx.
	Version(ctx context.Context) (uint64, error)
}

// round is how often the version is asked for: so long at most is a lost change unknown.
const round = time.Second

// Follow keeps the cache true to a feed until ctx ends. What the feed loses is noticed
// within a second, by its version; then everything is asked for anew.
func (d *Decider) Follow(ctx context.Context, feed Feed) {
	f := &follower{decider: d, feed: feed}
	wake := make(chan struct{}, 1)
	var following sync.WaitGroup
	following.Go(func() {
		feed.Follow(ctx, f.told, func() {
			select {
			case wake <- struct{}{}:
			default:
			}
		})
	})
	defer following.Wait()
	tick := time.NewTicker(round)
	defer tick.Stop()
	for {
		f.look(ctx)
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		case <-wake:
		}
	}
}

// follower compares what it was told with the version that it should be at.
type follower struct {
	decider *Decider
	feed    Feed

	mu      sync.Mutex
	known   bool
	version uint64 // of the last change that the cache was told of
	since   int64  // when the rules were found to be lost, as Decider.now; 0: they are there
}

func (f *follower) told(version uint64, c Change) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.decider.Changed(c)
	switch {
	case !f.known || version <= f.version:
		return
	case version > f.version+1:
		f.decider.Changed(Change{Everything: true})
	}
	f.version = version
}

// look asks for the version, and catches up with it.
func (f *follower) look(ctx context.Context) {
	asked := f.decider.now()
	ctx, cancel := context.WithTimeout(ctx, f.decider.opts.Patience)
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
	if !f.known || version != f.version { // a failover may have taken the last change back
		f.decider.Changed(Change{Everything: true})
		f.known, f.version = true, version
	}
	f.since = 0
	f.decider.lost.Store(false)
	f.decider.hear(asked)
}

// givenUp says whether rules that are lost, as when Redis was restarted empty, are taken
// for deleted. They are after MaxStale, or as soon as a rule is set; until then what is
// known goes on, what is not is refused, and there is time to restore them.
func (f *follower) givenUp(now int64) bool {
	if f.since == 0 {
		f.since = max(now, 1)
		f.decider.lost.Store(true)
	}
	return time.Duration(now-f.since) > f.decider.opts.MaxStale
}
