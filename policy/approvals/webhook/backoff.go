package webhook

import (
	"math/rand/v2"
	"time"

	"github.com/capgate/capgate/internal/lib/backoff"
)

// backoff returns the wait after so many attempts: exponential, with full jitter, and at least the receiver's
// Retry-After up to a bound.
func (o *Options) backoff(attempts int, asked time.Duration) time.Duration {
	most := backoff.After(attempts-1, o.BackoffBase, o.BackoffMax)
	return max(rand.N(most)+time.Millisecond, min(asked, o.BackoffMax))
}
