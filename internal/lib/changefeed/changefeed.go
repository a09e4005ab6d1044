package changefeed

import (
	"context"
	"sync"
	"time"

	"github.com/capgate/capgate/internal/lib/recovery"
)

// Feed tells of changes, each of which is a C. Every change has a version, one more than the last.
type Feed[C any] interface {
	// Follow calls told for each change until ctx ends, as soon as it is made. It may lose
	// some, and says with connected when it has; it may tell some twice, or in another order.
	Follow(ctx context.Context, told func(version uint64, c C), connected func())
	// Version is the last change's, 0 where there never was one. It must end with ctx.
	Version(ctx context.Context) (uint64, error)
}

// Copy is what a replica has in memory. Times are nanoseconds of its own clock.
type Copy[C any] interface {
	Now() int64
	// Changed and AllChanged say that something is not any more what it was, or may not be.
	Changed(c C)
	AllChanged()
	// Heard says that by then it was told of every change.
	Heard(at int64)
	// Lost says whether the shared store has less than it had, so that nobody knows what that was.
	Lost(lost bool)
}

// Options bound how patient a follower is. Both are required.
type Options struct {
	Patience time.Duration // most time that one question takes
	MaxStale time.Duration // how long what was lost may come back before it counts as deleted
}

// round is how often the version is asked for. A change that was not told by the second time
// that the version has it is lost: what is made at the same time may be told in any order.
const round = 500 * time.Millisecond

// mostAhead is how many changes that were told early are remembered.
const mostAhead = 10_000

// Run keeps a copy true to a feed until ctx ends. What the feed loses is noticed within a
// second, by its version.
func Run[C any](ctx context.Context, feed Feed[C], of Copy[C], o Options) {
	f := &follower[C]{Options: o, of: of, feed: feed}
	connected := make(chan struct{}, 1)
	var following sync.WaitGroup
	following.Go(recovery.Loop(ctx, "change feed", func() {
		feed.Follow(ctx, f.told, func() {
			select {
			case connected <- struct{}{}:
			default:
			}
		})
	}))
	defer following.Wait()
	tick := time.NewTicker(round)
	defer tick.Stop()
	for patient := false; ; {
		recovery.Round("change feed", func() { f.look(ctx, patient) })
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
			patient = true
		case <-connected: // what is missing will not be told
			patient = false
		}
	}
}

// follower compares what it was told with the version that it should be at.
type follower[C any] struct {
	Options
	of   Copy[C]
	feed Feed[C]

	mu      sync.Mutex
	known   bool
	version uint64              // all changes up to it were told
	ahead   map[uint64]struct{} // those that were told beyond it
	due     uint64              // up to which they should have been told by now
	asked   int64               // when that was the version
	since   int64               // when it was found that the store has lost what it had; 0: it has not
}

func (f *follower[C]) told(version uint64, c C) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.of.Changed(c)
	if !f.known || version <= f.version || len(f.ahead) == mostAhead { // of more one is taken for lost
		return
	}
	if f.ahead == nil {
		f.ahead = map[uint64]struct{}{}
	}
	f.ahead[version] = struct{}{}
	f.advance()
}

// advance goes on as far as everything was told.
func (f *follower[C]) advance() {
	for len(f.ahead) > 0 {
		if _, told := f.ahead[f.version+1]; !told {
			return
		}
		f.version++
		delete(f.ahead, f.version)
	}
}

// look asks for the version, and catches up with it. If it is patient, what is missing has
// until the next look to be told.
func (f *follower[C]) look(ctx context.Context, patient bool) {
	asked := f.of.Now()
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
	heard := asked
	switch {
	case f.known && version == f.version:
	case f.known && version > f.version && patient && f.version >= f.due:
		heard = f.asked
	default: // something is lost, or a failover has taken the last change back
		f.of.AllChanged()
		f.known, f.version, f.ahead = true, version, nil
	}
	f.due, f.asked, f.since = version, asked, 0
	f.of.Lost(false)
	f.of.Heard(heard)
}

// givenUp says whether what is lost, as when Redis was restarted empty, is taken for
// deleted. It is after MaxStale, or as soon as something is changed; until then what is
// known goes on, what is not is refused, and there is time to restore it.
func (f *follower[C]) givenUp(now int64) bool {
	if f.since == 0 {
		f.since = max(now, 1)
		f.of.Lost(true)
	}
	return time.Duration(now-f.since) > f.MaxStale
}
