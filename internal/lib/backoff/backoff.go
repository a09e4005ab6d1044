// Package backoff spaces attempts, and spreads them so that many replicas do not act at the same moment.
package backoff

import (
	"context"
	"math/rand/v2"
	"time"
)

// Backoff returns the waits between attempts: First, twice as long after each further failure, at most Max.
type Backoff struct {
	First, Max time.Duration // both positive

	failures int
}

// Next returns the next wait.
func (b *Backoff) Next() time.Duration {
	d := After(b.failures, b.First, b.Max)
	b.failures++
	return d
}

// Reset makes First the next wait, after a success.
func (b *Backoff) Reset() { b.failures = 0 }

// After returns the wait after an attempt that follows so many failed ones: first, twice as long for each of them, at
// most most.
func After(failures int, first, most time.Duration) time.Duration {
	d := first
	for ; failures > 0 && d < most; failures-- {
		d *= 2
	}
	return min(d, most)
}

// Jitter returns d, varied at random by up to a share of it in both directions.
func Jitter(d time.Duration, share float64) time.Duration { return JitterFrom(Random, d, share) }

// JitterFrom does the same as Jitter. The function random returns a random duration below its argument.
func JitterFrom(random func(time.Duration) time.Duration, d time.Duration, share float64) time.Duration {
	span := time.Duration(float64(d) * share)
	return d - span + random(2*span)
}

// Random returns a random duration below d; 0 if d is 0.
func Random(d time.Duration) time.Duration { return time.Duration(rand.Float64() * float64(d)) }

// Sleep waits for d, and reports whether it did. When ctx ends, it returns false at once.
func Sleep(ctx context.Context, d time.Duration) bool {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-ctx.Done():
		return false
	case <-timer.C:
		return true
	}
}
