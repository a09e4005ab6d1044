package router

import (
	"cmp"
	"math"
	"sync/atomic"
	"time"

	"github.com/capgate/capgate/internal/lib/strictyaml"
)

// Retries is the retry budget of a fleet: a failing fleet gets few calls more than its callers make. A zero number
// takes its default.
type Retries struct {
	// Fraction of the calls of about the last 10 s that may be retried, besides 10 retries a second; 0: no retries.
	Share float64 `yaml:"share" min:"0" max:"1" default:"0.1"`
	// true: the backends are behind a proxy, such as haproxy, that may refuse a call with REFUSED_STREAM or GOAWAY
	// although it ran. Such a call is only repeated if it is declared idempotent.
	Proxy bool `yaml:"proxied" default:"false"`

	Floor int  `yaml:"-"` // further retries per second; default 10; negative: none
	Off   bool `yaml:"-"` // no call makes another attempt
}

// Check completes a budget of the file. Without a share there are no retries: neither the few of every fleet, nor those
// that need no budget.
func (r *Retries) Check(strictyaml.At) {
	if r.Share == 0 {
		r.Share, r.Floor, r.Off = -1, -1, true
	}
}

func (r Retries) withDefaults() Retries {
	r.Share = max(cmp.Or(r.Share, defaults().Retries.Share), 0)
	r.Floor = max(cmp.Or(r.Floor, 10), 0)
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
