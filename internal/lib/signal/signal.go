// Package signal wakes goroutines that wait for work.
package signal

import (
	"context"
	"time"
)

// Wake leaves a signal in a channel that has room for one, unless it has one already. It does not block. The goroutine
// that receives the signal finds all work that was added before Wake was called.
func Wake(c chan<- struct{}) {
	select {
	case c <- struct{}{}:
	default:
	}
}

// Wait waits for a signal in c, for at most d, or until ctx ends. It reports whether it received the signal.
func Wait(ctx context.Context, c <-chan struct{}, d time.Duration) bool {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-ctx.Done():
		return false
	case <-c:
		return true
	case <-timer.C:
		return false
	}
}
