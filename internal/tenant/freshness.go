package tenant

import (
	"math/rand/v2"
	"sync/atomic"
	"time"
)

// lag is how long the store may be silent before cached answers count as stale. It is several rounds of the
// change feed.
const lag = 5 * time.Second

// freshness tells how current the cached answers are. Its clock has nanoseconds.
type freshness struct {
	ttl, maxStale time.Duration
	started       time.Time
	synced        atomic.Int64 // when the store last confirmed that all changes have arrived
	storeLost     atomic.Bool  // the store has lost data
}

func (f *freshness) now() int64 { return int64(time.Since(f.started)) }

// valid reports whether a cached answer may be used as it is. While the feed works, it is valid until its
// expiry. After an interruption of the feed, it is valid for maxStale.
func (f *freshness) valid(until int64, doubted bool) bool {
	now := f.now()
	silent := time.Duration(now - f.synced.Load())
	return silent <= f.maxStale && (silent > lag || now <= until && !doubted)
}

// usable reports whether a cached answer may be used if the store gives no other.
func (f *freshness) usable() bool { return time.Duration(f.now()-f.synced.Load()) <= f.maxStale }

// expiry returns the time until which an answer of now is valid.
func (f *freshness) expiry() int64 {
	jitter := 0.8 + 0.4*rand.Float64()
	return f.now() + int64(float64(f.ttl)*jitter)
}
