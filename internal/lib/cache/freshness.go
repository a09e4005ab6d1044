package cache

import (
	"sync/atomic"
	"time"

	"github.com/capgate/capgate/internal/lib/backoff"
)

// silentAfter is the time since the last sync after which the store counts as silent. It is several rounds of the
// change feed.
const silentAfter = 5 * time.Second

// Freshness tracks how current the entries of a cache are. Its times are nanoseconds of its own clock.
type Freshness struct {
	ttl, maxStale time.Duration
	clock         func() time.Time // nil: the system's
	began         time.Time
	synced        atomic.Int64
	lost          atomic.Bool
}

// NewFreshness returns a Freshness for entries that are valid for ttl, plus or minus a fifth, and while the store is
// silent for maxStale after the last sync. The argument clock may be nil; only differences of its times matter.
func NewFreshness(ttl, maxStale time.Duration, clock func() time.Time) *Freshness {
	f := &Freshness{ttl: ttl, maxStale: maxStale, clock: clock, began: time.Now()}
	if clock != nil {
		f.began = clock()
	}
	return f
}

// Now returns the current time.
func (f *Freshness) Now() int64 {
	if f.clock == nil {
		return int64(time.Since(f.began)) // cheaper than time.Now
	}
	return int64(f.clock().Sub(f.began))
}

// At returns a time of the system's clock as Now would have returned it. A zero time, or another clock, means Now.
func (f *Freshness) At(t time.Time) int64 {
	if f.clock != nil || t.IsZero() {
		return f.Now()
	}
	return int64(t.Sub(f.began))
}

// Expiry returns the time until which an entry that is loaded now is valid.
func (f *Freshness) Expiry() int64 {
	return f.Now() + int64(backoff.Jitter(f.ttl, 0.2))
}

// Valid reports whether an entry may be used as it is. While the store is in sync, an entry is valid until its expiry.
// While the store is silent, all entries are valid, for a bounded time.
func (f *Freshness) Valid(until int64) bool { return f.ValidAt(until, f.Now()) }

// ValidAt is Valid at a time that Now has returned.
func (f *Freshness) ValidAt(until, now int64) bool {
	silent := time.Duration(now - f.synced.Load())
	return silent <= f.maxStale && (silent > silentAfter || now <= until)
}

// Usable reports whether an entry that has expired may be used if the store gives no answer.
func (f *Freshness) Usable() bool { return f.Age() <= f.maxStale }

// Synced records the time at which the cache knew of every change.
func (f *Freshness) Synced(at int64) { f.synced.Store(at) }

// LastSync returns the time of the last sync; 0: there was none.
func (f *Freshness) LastSync() int64 { return f.synced.Load() }

// Age returns the time since the last sync.
func (f *Freshness) Age() time.Duration { return time.Duration(f.Now() - f.synced.Load()) }

// StoreLost records whether the store has lost data, and reports whether it had before.
func (f *Freshness) StoreLost(lost bool) (before bool) { return f.lost.Swap(lost) }

// Lost reports whether the store has lost data, so that its answers are not valid.
func (f *Freshness) Lost() bool { return f.lost.Load() }
