package webhook

import (
	"math/rand/v2"
	"time"
)

// backoff is how long to wait after so many attempts: exponential, with full jitter, and no
// less than the receiver asked for, as far as that is bearable.
func (o *Options) backoff(attempts int, asked time.Duration) time.Duration {
	most := o.Longest
	if shift := attempts - 1; shift < 30 {
		most = min(most, o.First<<shift)
	}
	return max(rand.N(most)+time.Millisecond, min(asked, o.Longest))
}
