package tenant

import (
	"sync"
	"time"
)

// TokenBucket allows a burst of events at once, and then one event for each interval.
type TokenBucket struct {
	burst    float64
	interval time.Duration

	mu      sync.Mutex
	tokens  float64
	updated time.Time
}

// NewTokenBucket returns a full bucket.
func NewTokenBucket(burst int, every time.Duration) *TokenBucket {
	return &TokenBucket{burst: float64(burst), tokens: float64(burst), interval: every}
}

// Allow reports whether an event may happen at now, and takes a token if so.
func (b *TokenBucket) Allow(now time.Time) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	if passed := now.Sub(b.updated); passed > 0 {
		b.tokens = min(b.burst, b.tokens+float64(passed)/float64(b.interval))
		b.updated = now
	}
	if b.tokens < 1 {
		return false
	}
	b.tokens--
	return true
}
