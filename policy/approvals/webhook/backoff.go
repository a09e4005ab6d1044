package webhook

import (
	"math/rand/v2"
	"time"
)

// backoff returns the wait after so many attempts: exponential, with full jitter, and at least the receiver's
// Retry-After up to a bound.
func (o *Options) backoff(attempts int, asked time.Duration) time.Duration {
	most := o.BackoffMax
	if shift := attempts - 1; shift < 30 {
		most = min(most, o.BackoffBase<<shift)
	}
	return max(rand.N(most)+time.Millisecond, min(asked, o.BackoffMax))
}
