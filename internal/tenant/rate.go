package tenant

import (
	"sync"
	"time"
)

// rate allows so many things a second, and as many at once after a second without any.
type rate struct {
	most float64
	now  func() int64 // nanoseconds

	mu   sync.Mutex
	left float64
	at   int64
}

func newRate(most int, now func() int64) *rate {
	return &rate{most: float64(most), left: float64(most), now: now}
}

func (r *rate) take() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	now := r.now()
	r.left = min(r.most, r.left+r.most*time.Duration(now-r.at).Seconds())
	r.at = now
	if r.left < 1 {
		return false
	}
	r.left--
	return true
}
