package tenant

import (
	"sync"
	"time"
)

// TokenBucket lets something happen so many times at once, and then once in a while.
type TokenBucket struct {
	burst    float64
	interval time.Duration

	mu      sync.Mutex
	tokens  float64
	updated time.Time
}

// NewTokenBucket makes a full one.
func NewTokenBucket(burst int, every time.Duration) *TokenBucket {
	return &TokenBucket{burst: float64(burst), tokens: float64(burst), interval: every}
}

// Allow says whether it may happen now.
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
