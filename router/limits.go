package router

import (
	"context"
	"maps"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/capgate/capgate/internal/lib/recovery"
	"github.com/capgate/capgate/internal/lib/signal"
)

// LimitsConfig configures Limits. The zero value is for a single gateway.
type LimitsConfig struct {
	// Store are shared by replicas; default nil: this replica is the only one.
	Store PermitStore
	// Timeout is the longest wait for an answer of the Store, after which the replica uses its share;
	// default 100 ms.
	Timeout time.Duration
	// Replicas returns the number of replicas, or 0 if unknown. It must not block; default unknown.
	Replicas func() int
}

// Limits is the common part of all limited fleets: it exchanges permits with the store, and resumes
// the calls that waited for one. Unlimited fleets do not use it. Run must be running while calls
// arrive.
type Limits struct {
	cfg   LimitsConfig
	wake  chan struct{} // an exchange or a check is due
	ready chan struct{} // a call can resume

	waiting  atomic.Int64 // calls, of all fleets
	replicas atomic.Int64 // the last known number

	mu        sync.Mutex // locked after any limiter's
	limiters  map[string]*limiter
	due       []*limiter   // with a scheduled exchange
	completed []completion // in order
	busy      int          // exchanges in flight
	firstOnce sync.Once
	first     chan struct{} // closed by begin
}

// completion is a completed wait.
type completion struct {
	limiter *limiter
	waiter  *Waiter
	PermitResult
}

// NewLimits returns the Limits of a Router's tables.
func NewLimits(cfg LimitsConfig) *Limits {
	if cfg.Timeout <= 0 {
		cfg.Timeout = 100 * time.Millisecond
	}
	return &Limits{
		cfg: cfg, wake: make(chan struct{}, 1), ready: make(chan struct{}, 1),
		limiters: map[string]*limiter{}, first: make(chan struct{}),
	}
}

// of returns a capability's limiter, which outlives its fleets.
func (a *Limits) of(s *fleetState, capability string) *limiter {
	a.mu.Lock()
	defer a.mu.Unlock()
	l := a.limiters[capability]
	if l == nil {
		l = &limiter{
			limits: a, capability: capability, pools: map[string]*pool{}, queue: waitQueue{all: &a.waiting},
			needed: callTimes{}, unansweredSince: never,
		}
		a.firstOnce.Do(func() { close(a.first) })
		a.limiters[capability] = l
	}
	l.unusedSince = 0
	l.state.Store(s)
	return l
}

// retire records that a limiter's capability no longer has a fleet. Calls in flight are not
// affected.
func (a *Limits) retire(l *limiter) {
	a.mu.Lock()
	defer a.mu.Unlock()
	l.unusedSince = max(l.now(), 1)
}

// forget drops an idle limiter whose fleet was removed so long ago that no call can reach it.
// The caller must hold its lock.
func (a *Limits) forget(l *limiter, now time.Duration) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if l.unusedSince > 0 && now-l.unusedSince >= forgetAfter {
		delete(a.limiters, l.capability)
	}
}

// Run works until ctx ends, and then returns the permits that no call has.
func (a *Limits) Run(ctx context.Context) {
	var running sync.WaitGroup
	defer running.Wait()
	running.Go(func() { a.resume(ctx) })
	if a.cfg.Store != nil {
		running.Go(func() {
			select {
			case <-a.first:
				a.cfg.Store.Listen(ctx, a.notified)
			case <-ctx.Done():
			}
		})
	}
	exchanges, stop := context.WithCancel(context.WithoutCancel(ctx))
	defer stop()
	timer := time.NewTimer(renewEvery)
	defer timer.Stop()
	var looked, renewed time.Time
	for ctx.Err() == nil {
		a.start(exchanges, &running)
		due := renewed.Add(renewEvery)
		if poll := looked.Add(pollEvery); a.waiting.Load() > 0 && poll.Before(due) {
			due = poll
		}
		timer.Reset(max(time.Until(due), 0))
		select {
		case <-ctx.Done():
		case <-a.wake:
		case looked = <-timer.C:
			renew := looked.Sub(renewed) >= renewEvery
			if renew {
				renewed = looked
				a.countReplicas()
			}
			a.each(func(l *limiter) { l.tick(renew) })
		}
	}
	a.each(func(l *limiter) { l.returnPermits(exchanges) })
}

// countReplicas updates the number of replicas. While the store is unavailable it is unknown, and the last
// known number stays.
func (a *Limits) countReplicas() {
	if a.cfg.Replicas == nil {
		return
	}
	if n := a.cfg.Replicas(); n > 0 {
		a.replicas.Store(int64(n))
	}
}

// unavailable reports whether the store is known to be unavailable.
func (a *Limits) unavailable() bool { return a.cfg.Store != nil && a.cfg.Store.Unavailable() }

// each calls f with every limiter.
func (a *Limits) each(f func(*limiter)) {
	a.mu.Lock()
	all := slices.Collect(maps.Values(a.limiters))
	a.mu.Unlock()
	for _, l := range all {
		f(l)
	}
}

// notified schedules a capability's exchange.
func (a *Limits) notified(capability string) {
	a.mu.Lock()
	l := a.limiters[capability]
	a.mu.Unlock()
	if l != nil {
		l.notified()
	}
}

// start begins the scheduled exchanges, within their limit.
func (a *Limits) start(ctx context.Context, running *sync.WaitGroup) {
	a.mu.Lock()
	defer a.mu.Unlock()
	for len(a.due) > 0 && a.busy < maxExchanges {
		l := a.due[0]
		a.due = a.due[1:]
		a.busy++
		running.Go(func() {
			recovery.Round("concurrency limits", func() { l.exchange(ctx) })
			a.mu.Lock()
			a.busy--
			a.mu.Unlock()
			signal.Wake(a.wake)
		})
	}
}

// schedule schedules a limiter's exchange. The caller holds its lock.
func (a *Limits) schedule(l *limiter) {
	a.mu.Lock()
	a.due = append(a.due, l)
	a.mu.Unlock()
	signal.Wake(a.wake)
}

// complete resumes a waiting call. It does so on a separate goroutine, as the caller may hold the lock
// of another call. The caller holds the limiter's lock.
func (a *Limits) complete(d completion) {
	a.mu.Lock()
	a.completed = append(a.completed, d)
	a.mu.Unlock()
	signal.Wake(a.ready)
}

// resume resumes calls when their wait is complete, until ctx ends.
func (a *Limits) resume(ctx context.Context) {
	for {
		select {
		case <-ctx.Done():
			return
		case <-a.ready:
		}
		a.mu.Lock()
		all := a.completed
		a.completed = nil
		a.mu.Unlock()
		for i := range all {
			if !all[i].waiter.resume(all[i].PermitResult) {
				all[i].Claim.Done(Outcome{}) // its caller is gone
			}
		}
	}
}
