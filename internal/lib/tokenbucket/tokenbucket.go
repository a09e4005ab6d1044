// Package tokenbucket bounds how often something may happen.
package tokenbucket

import (
	"sync"
	"time"
)

// Bucket is a token bucket, which begins full. It is safe for concurrent use. Callers pass the time.
type Bucket struct {
	every  time.Duration // for one token
	refill time.Duration // from empty to full

	mu   sync.Mutex
	full time.Time // when the bucket is full again if no more tokens are taken
}

// New returns a bucket of burst tokens, which gets one token back every interval.
func New(burst int, every time.Duration) *Bucket {
	return &Bucket{every: every, refill: time.Duration(burst) * every}
}

// Take takes a token, or returns the time until there is one.
func (b *Bucket) Take(now time.Time) (wait time.Duration) { return b.TakeAll(now, 1) }

// TakeAll takes n tokens, or returns the time until there are so many. A bucket never has more than its burst.
func (b *Bucket) TakeAll(now time.Time, n int) (wait time.Duration) {
	b.mu.Lock()
	defer b.mu.Unlock()
	full := b.after(now, n)
	if wait = full.Sub(now) - b.refill; wait > 0 {
		return wait
	}
	b.full = full
	return 0
}

// Spend takes n tokens, also those that the bucket does not have yet, and returns the time until it has had them.
func (b *Bucket) Spend(now time.Time, n int) (wait time.Duration) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.full = b.after(now, n)
	return max(b.full.Sub(now)-b.refill, 0)
}

// FullIn returns the time until the bucket is full. It exceeds
// burst intervals while more was spent than the bucket had.
func (b *Bucket) FullIn(now time.Time) time.Duration {
	b.mu.Lock()
	defer b.mu.Unlock()
	return max(b.full.Sub(now), 0)
}

// after returns when the bucket is full again after n more tokens. The caller holds mu.
func (b *Bucket) after(now time.Time, n int) time.Time {
	from := b.full
	if from.Before(now) {
		from = now
	}
	return from.Add(time.Duration(n) * b.every)
}
