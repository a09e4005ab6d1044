package tenant

import (
	"math/rand/v2"
	"sync/atomic"
	"time"
)

// lag is how long the store may be silent before its answers count as stale: several of the
// rounds in which it is asked whether anything has changed.
const lag = 5 * time.Second

// freshness knows how true what is in memory still is. Its clock has nanoseconds.
type freshness struct {
	ttl, maxStale time.Duration
	started       time.Time
	synced        atomic.Int64 // when the store last confirmed that every change was told
	storeLost     atomic.Bool  // the store has less than it had
}

func (f *freshness) now() int64 { return int64(time.Since(f.started)) }

// valid says whether an answer may be taken as it is. While the store is heard it is asked
// again when its time is over; while it is not, what is known goes on for maxStale.
func (f *freshness) valid(until int64, doubted bool) bool {
	now := f.now()
	silent := time.Duration(now - f.synced.Load())
	return silent <= f.maxStale && (silent > lag || now <= until && !doubted)
}

// usable says whether an answer may be taken because the store gives no other.
func (f *freshness) usable() bool { return time.Duration(f.now()-f.synced.Load()) <= f.maxStale }

// expiry is until when an answer of now is taken without asking again.
func (f *freshness) expiry() int64 {
	jitter := 0.8 + 0.4*rand.Float64()
	return f.now() + int64(float64(f.ttl)*jitter)
}
