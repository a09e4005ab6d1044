package tenant

import (
	"math/rand/v2"
	"sync/atomic"
	"time"
)

// lag is how long the store may be silent before its answers count as stale: several of the
// rounds in which it is asked whether anything has changed.
const lag = 5 * time.Second

// fresh knows how true what is in memory still is. Its clock has nanoseconds.
type fresh struct {
	ttl, maxStale time.Duration
	began         time.Time
	heard         atomic.Int64 // when the store last confirmed that every change was told
	lost          atomic.Bool  // the store has less than it had
}

func (f *fresh) now() int64 { return int64(time.Since(f.began)) }

// stands says whether an answer may be taken as it is. While the store is heard it is asked
// again when its time is over; while it is not, what is known goes on for maxStale.
func (f *fresh) stands(until int64, doubted bool) bool {
	now := f.now()
	silent := time.Duration(now - f.heard.Load())
	return silent <= f.maxStale && (silent > lag || now <= until && !doubted)
}

// bears says whether an answer may be taken because the store gives no other.
func (f *fresh) bears() bool { return time.Duration(f.now()-f.heard.Load()) <= f.maxStale }

// end is until when an answer of now is taken without asking again.
func (f *fresh) end() int64 {
	jitter := 0.8 + 0.4*rand.Float64()
	return f.now() + int64(float64(f.ttl)*jitter)
}
