package tenant

import (
	"sync"
	"time"
)

// Bucket lets something happen so many times at once, and then once in a while.
type Bucket struct {
	burst float64
	every time.Duration

	mu   sync.Mutex
	have float64
	at   time.Time
}

// NewBucket makes a full one.
func NewBucket(burst int, every time.Duration) *Bucket {
	return &Bucket{burst: float64(burst), have: float64(burst), every: every}
}

// Take says whether it may happen now.
func (b *Bucket) Take(now time.Time) bool {
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
