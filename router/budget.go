package router

import (
	"math"
	"sync/atomic"
	"time"
)

// Retries is the retry budget of a fleet: a failing fleet gets few calls more than its callers
// make. A zero field takes its default.
type Retries struct {
	Share float64 // retries per call of about the last 10 s; default 0.1; negative: none
	Floor int     // further retries per second; default 10; negative: none
	Off   bool    // no call makes another attempt
	Proxy bool    // the backends are behind a proxy that may answer REFUSED_STREAM for calls that ran
}

func (r Retries) withDefaults() Retries {
	if r.Share == 0 {
		r.Share = 0.1
	}
	if r.Floor == 0 {
		r.Floor = 10
	}
	r.Share, r.Floor = max(r.Share, 0), max(r.Floor, 0)
	return r
}

// window is the time over which calls and retries are compared: long enough for the burst of a
// backend that dies with many calls in flight.
const window = 10 * time.Second

// budget compares a fleet's calls and retries, both decaying with time. In the long run it allows
// Share of the calls and Floor a second. Calls are counted by their backends, and only a retry adds
// them up.
type budget struct {
	at      time.Duration
	counted int64 // calls counted so far
	calls   float64
	retries float64

	allowed atomic.Int64
	denied  atomic.Int64
}

// allow takes one retry from the budget, if possible.
func (b *budget) allow(r Retries, seen int64, now time.Duration) bool {
	if passed := now - b.at; passed > 0 {
		keep := math.Exp(-float64(passed) / float64(window))
		// The new calls arrived evenly over the time that passed, and have decayed since.
		fresh := float64(max(seen-b.counted, 0)) * (1 - keep) * float64(window) / float64(passed)
		b.calls = b.calls*keep + fresh
		b.retries *= keep
	} else {
		b.calls += float64(max(seen-b.counted, 0))
	}
	b.at, b.counted = max(now, b.at), seen
	if b.retries+1 > b.calls*r.Share+float64(r.Floor)*window.Seconds() {
		b.denied.Add(1)
		return false
	}
	b.retries++
	b.allowed.Add(1)
	return true
}

// Retries reports whether calls of the fleet may make another attempt at all.
func (f *Fleet) Retries() bool { return !f.retries.Off }

// CountRetry counts a retry that does not use the budget.
func (f *Fleet) CountRetry() { f.state.budget.allowed.Add(1) }

// AllowRetry reports whether a call that provably did not start at its backend, or is idempotent, may
// be retried at another, and counts the retry.
func (f *Fleet) AllowRetry() bool {
	var seen int64
	for _, b := range f.Backends {
		seen += b.load.routed.Load()
	}
	now := f.clock.now()
	f.state.mu.Lock()
	defer f.state.mu.Unlock()
	return f.state.budget.allow(f.retries, seen, now)
}
