package router

import (
	"context"
	"maps"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/capgate/capgate/internal/lib/recovery"
)

// LimitsConfig is for a Limits. The zero value is that of a gateway without others.
type LimitsConfig struct {
	Slots    Slots         // that replicas share; default nil: this replica is the only one
	Patience time.Duration // how long a call waits for an answer of Slots before its replica goes by its share; default 100 ms
	Replicas func() int    // how many there are, 0: not known; it must not block; default not known
}

// Limits is everything that limited fleets have in common: who asks the store for
// places and who lets calls go on that waited for one. Unlimited fleets know nothing of
// it. Run has to run while calls come.
type Limits struct {
	cfg   LimitsConfig
	wake  chan struct{} // something is due
	ready chan struct{} // some call may go on

	waiting  atomic.Int64 // calls, of all fleets
	replicas atomic.Int64 // as far as was known last

	mu       sync.Mutex // after any limiter's
	limiters map[string]*limiter
	due      []*limiter // want an exchange
	goOn     []decided  // in order
	busy     int        // exchanges under way
	begin    sync.Once
	first    chan struct{} // closed by begin
}

// decided is a call that waits no more.
type decided struct {
	limiter *limiter
	waiter  *Waiter
	Admission
}

// NewLimits makes the Limits of a Router's tables.
func NewLimits(cfg LimitsConfig) *Limits {
	if cfg.Patience <= 0 {
		cfg.Patience = 100 * time.Millisecond
	}
	return &Limits{
		cfg: cfg, wake: make(chan struct{}, 1), ready: make(chan struct{}, 1),
		limiters: map[string]*limiter{}, first: make(chan struct{}),
	}
}

// of returns a capability's limiter, which outlives its fleets.
func (a *Limits) of(s *standing, capability string) *limiter {
	a.mu.Lock()
	defer a.mu.Unlock()
	l := a.limiters[capability]
	if l == nil {
		l = &limiter{all: a, capability: capability, pools: map[string]*pool{}, queue: waiting{all: &a.waiting}, owed: never}
		a.begin.Do(func() { close(a.first) })
		a.limiters[capability] = l
	}
	l.gone = 0
	l.standing.Store(s)
	return l
}

// retire takes note that a limiter's capability has no fleet any more. Calls that began before
// go on as they would have.
func (a *Limits) retire(l *limiter) {
	a.mu.Lock()
	defer a.mu.Unlock()
	l.gone = max(l.now(), 1)
}

// forget lets go of an idle limiter that no fleet has had for so long that no call can come to
// it any more. The caller holds its lock.
func (a *Limits) forget(l *limiter, now time.Duration) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if l.gone > 0 && now-l.gone >= forgetAfter {
		delete(a.limiters, l.capability)
	}
}

// Run works until ctx ends, and then gives back what no call has.
func (a *Limits) Run(ctx context.Context) {
	var running sync.WaitGroup
	defer running.Wait()
	running.Go(func() { a.resume(ctx) })
	if a.cfg.Slots != nil {
		running.Go(func() {
			select {
			case <-a.first:
				a.cfg.Slots.Listen(ctx, a.notice)
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
				a.count()
			}
			a.visit(func(l *limiter) { l.tick(renew) })
		}
	}
	a.visit(func(l *limiter) { l.leave(exchanges) })
}

// count takes note of how many replicas there are. While the store is away nobody knows;
// what was last known goes on.
func (a *Limits) count() {
	if a.cfg.Replicas == nil {
		return
	}
	if n := a.cfg.Replicas(); n > 0 {
		a.replicas.Store(int64(n))
	}
}

// away says that the store is known to be away.
func (a *Limits) away() bool { return a.cfg.Slots != nil && a.cfg.Slots.Away() }

// visit calls f with every limiter.
func (a *Limits) visit(f func(*limiter)) {
	a.mu.Lock()
	all := slices.Collect(maps.Values(a.limiters))
	a.mu.Unlock()
	for _, l := range all {
		f(l)
	}
}

// notice makes a capability's exchange due.
func (a *Limits) notice(capability string) {
	a.mu.Lock()
	l := a.limiters[capability]
	a.mu.Unlock()
	if l != nil {
		l.noticed()
	}
}

// start begins the exchanges that are due, as many as may be under way.
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
			poke(a.wake)
		})
	}
}

// ask puts a limiter among those that are due. The caller holds its lock.
func (a *Limits) ask(l *limiter) {
	a.mu.Lock()
	a.due = append(a.due, l)
	a.mu.Unlock()
	poke(a.wake)
}

// decide lets a call go on that waited. It does so from a goroutine of its own, as whoever
// gives up a place may hold the lock of another call. The caller holds the limiter's lock.
func (a *Limits) decide(d decided) {
	a.mu.Lock()
	a.goOn = append(a.goOn, d)
	a.mu.Unlock()
	poke(a.ready)
}

func (a *Limits) resume(ctx context.Context) {
	for {
		select {
		case <-ctx.Done():
			return
		case <-a.ready:
		}
		a.mu.Lock()
		all := a.goOn
		a.goOn = nil
		a.mu.Unlock()
		for i := range all {
			if !all[i].waiter.resume(all[i].Admission) {
				all[i].Claim.Done(Outcome{}) // its caller has left
			}
		}
	}
}

func poke(ch chan struct{}) {
	select {
	case ch <- struct{}{}:
	default:
	}
}
