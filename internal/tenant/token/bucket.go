package token

import (
	"sync"
	"time"
)

// bucket lets something happen so many times at once, and then once in a while.
type bucket struct {
	burst float64
	every time.Duration

	mu   sync.Mutex
	have float64
	at   time.Time
}

func newBucket(burst int, every time.Duration) *bucket {
	return &bucket{burst: float64(burst), have: float64(burst), every: every}
}

func (b *bucket) take(now time.Time) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	if passed := now.Sub(b.at); passed > 0 {
		b.have = min(b.burst, b.have+float64(passed)/float64(b.every))
		b.at = now
	}
	if b.have < 1 {
		return false
	}
	b.have--
	return true
}
