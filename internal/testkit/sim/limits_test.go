package sim_test

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/capgate/capgate/internal/call"
	"github.com/capgate/capgate/internal/ratelimit"
	"github.com/capgate/capgate/internal/redisstore"
	"github.com/capgate/capgate/internal/tenant"
	"github.com/capgate/capgate/internal/testkit/sim"
)

// TestLimits: whatever happens to replicas and to Redis, they admit no more calls than docs/run/limits.md says, and no
// permit is lost for good.
func TestLimits(t *testing.T) { check(t, playLimits) }

const (
	limitedReplicas = 3
	longestWait     = time.Second     // of a call for its limits: some rounds, in each a tenth of a second for Redis
	longestCall     = 2 * time.Second // shorter than the lifetime of a silent replica's permits
	permitLifetime  = 5 * time.Second
)

// limitsWorld is a run of callers at several replicas with one limit.
type limitsWorld struct {
	*cluster[*ratelimit.Limiter]
	settings *tenant.Settings
	admitted *admissions
}

func playLimits(w *sim.World) {
	p := &limitsWorld{settings: &tenant.Settings{ID: "acme", Limits: tenant.Limits{Bounds: boundsOf(w)}}}
	p.admitted = &admissions{w: w, bounds: p.settings.Limits.Bounds}
	p.cluster = newCluster(w, limitedReplicas, func(_ context.Context, s *redisstore.Store, name string) (
		*ratelimit.Limiter, func(context.Context),
	) {
		l := ratelimit.New(ratelimit.Config{Store: s.Limits(name), Replicas: func() int { return limitedReplicas },
			Jitter: w.Jitter})
		return l, l.Run
	})
	p.copies(20)
	w.Faults = func() []sim.Event { return p.faults(p.admitted.failedOver) }
	w.Check = p.check
	for i := range 6 {
		w.Go(fmt.Sprintf("caller%d", i), p.caller)
	}
	w.Chaos(1500)
	w.Settle(time.Minute)
	w.Go("finally", p.finally)
	w.Settle(time.Minute)
	p.admitted.checkRate()
	p.end()
}

// boundsOf is the limit of a run: a rate, a quota, or concurrent calls.
func boundsOf(w *sim.World) tenant.Bounds {
	n := int(w.Draw("limit") % 1_000_000)
	switch w.Seed % 3 {
	case 0:
		rate := 1 + n%40
		return tenant.Bounds{CallsPerSecond: rate, Burst: max(rate/10, 1) + n/64%rate}
	case 1:
		return tenant.Bounds{PerDay: 10 + n%150}
	}
	return tenant.Bounds{Concurrent: 1 + n%12}
}

// caller makes calls: some alone, some in a burst, some that last.
func (p *limitsWorld) caller(a *sim.Actor) {
	for range 12 {
		if !p.turn(a, "calls") {
			return
		}
		l := p.some(a).now()
		if l == nil {
			continue
		}
		switch a.IntN(3) {
		case 0:
			p.call(a, l, time.Duration(a.Int64N(int64(longestCall))))
		default:
			for left := a.IntN(15); p.call(a, l, 0) && left > 0; left-- {
			}
		}
		a.Pause(p.ctx, 300*time.Millisecond)
	}
}

// call makes a call that takes a time. It returns false if it was not admitted.
func (p *limitsWorld) call(a *sim.Actor, l *life[*ratelimit.Limiter], takes time.Duration) bool {
	var permit ratelimit.Permit
	admitted, waited := p.take(a, l, &permit)
	if waited > longestWait {
		p.Fail("a call waited %v for its limits", waited)
	}
	if !admitted {
		l.part.Release(0, &permit)
		return false
	}
	done := p.admitted.begin(l)
	if takes == 0 || a.Pause(l.ctx, takes) {
		a.Turn(l.ctx, "ends its call")
	}
	done()
	l.part.Release(0, &permit)
	return true
}

// take takes what a call needs, and waits as long as that may be there soon. waited leaves out the time until the
// caller's turn, which is the simulation's.
func (p *limitsWorld) take(a *sim.Actor, l *life[*ratelimit.Limiter], permit *ratelimit.Permit) (taken bool,
	waited time.Duration,
) {
	for p.ctx.Err() == nil && l.ctx.Err() == nil {
		refusal, ok := l.part.Take(p.settings, &call.Call{}, 0, permit)
		if refusal != nil || ok {
			return ok, waited
		}
		began, resumed := p.Now(), make(chan struct{})
		l.part.Wait(permit, func() { close(resumed) })
		select {
		case <-resumed:
		case <-l.ctx.Done():
		case <-p.ctx.Done():
		}
		waited += p.Now() - began
		if !a.Turn(p.ctx, "goes on") {
			break
		}
	}
	return false, waited
}

// finally checks that no permit is lost: together the replicas admit as many calls at once as there may be.
func (p *limitsWorld) finally(a *sim.Actor) {
	most := p.settings.Limits.Concurrent
	if most == 0 {
		return
	}
	if !a.TurnWhen(p.ctx, "begins", func() bool { return len(p.up()) == len(p.replicas) }) {
		return
	}
	var held []*ratelimit.Permit
	for until := p.Now() + 2*permitLifetime + longestCall; len(held) < most; {
		for _, r := range p.replicas {
			permit := new(ratelimit.Permit)
			l := r.now()
			if taken, _ := p.take(a, l, permit); taken {
				held = append(held, permit)
				p.admitted.begin(l)
			}
		}
		if p.Now() > until {
			p.Fail("%d calls are admitted at once after the faults, want %d", len(held), most)
			return
		}
		if !a.Pause(p.ctx, 100*time.Millisecond) {
			return
		}
	}
}

// check compares what runs with the limit.
func (p *limitsWorld) check() error {
	for _, r := range p.replicas {
		if l := r.now(); l != nil && l.part.Stats().OwnShare > 0 {
			p.admitted.alone = true // only this goroutine uses it
		}
	}
	return p.admitted.check(p.crashes())
}

// admissions are the admitted calls of a run.
type admissions struct {
	w      *sim.World
	bounds tenant.Bounds

	mu        sync.Mutex
	at        []time.Duration
	running   map[*life[*ratelimit.Limiter]]int
	alone     bool // a replica used its own share
	failovers []time.Duration
	forgotten int // commands that wrote, or may have
}

func (d *admissions) failedOver(_ time.Time, lost int) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.failovers, d.forgotten = append(d.failovers, d.w.Now()), d.forgotten+lost
}

// begin records a call that begins. It ends with done, or with its replica.
func (d *admissions) begin(l *life[*ratelimit.Limiter]) (done func()) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.w.Note("a call is admitted")
	d.at = append(d.at, d.w.Now())
	if d.running == nil {
		d.running = map[*life[*ratelimit.Limiter]]int{}
	}
	d.running[l]++
	return func() {
		d.mu.Lock()
		defer d.mu.Unlock()
		d.running[l]--
	}
}

// check returns an error if there are more calls than there may be.
//
// Without a failover, and while Redis answers in time, the limit is exact. A replica that Redis does not answer uses its
// share besides; what a crash or a failover forgets is used once more.
func (d *admissions) check(crashes int) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	recent := 0
	for _, at := range d.failovers {
		if d.w.Now()-at < permitLifetime+longestCall {
			recent++
		}
	}
	running := 0
	for l, n := range d.running {
		if l.ctx.Err() == nil {
			running += n
		}
	}
	if most := d.bounds.Concurrent; most > 0 {
		if d.alone {
			most += limitedReplicas * max(most/limitedReplicas, 1)
		}
		if most += recent * d.bounds.Concurrent; running > most {
			return fmt.Errorf("%d calls at once of %d, want %d at most", running, d.bounds.Concurrent, most)
		}
	}
	if quota := d.bounds.PerDay; quota > 0 {
		most := quota
		if share := max(quota/limitedReplicas, 1); d.alone {
			most += share * (limitedReplicas + crashes + len(d.failovers))
		}
		if most += d.forgotten * max(quota/64, 1); len(d.at) > most {
			return fmt.Errorf("%d calls of a quota of %d, want %d at most", len(d.at), quota, most)
		}
	}
	return nil
}

// checkRate checks the calls of every interval.
func (d *admissions) checkRate() {
	d.mu.Lock()
	defer d.mu.Unlock()
	b := d.bounds
	if b.CallsPerSecond == 0 {
		return
	}
	burst, rate := float64(max(b.Burst, b.CallsPerSecond/10)), float64(b.CallsPerSecond)
	lease := float64(max(b.CallsPerSecond/4, 1) * limitedReplicas)
	more := float64(len(d.failovers)) * (burst + lease)
	if d.alone {
		more, rate = more+burst*2, 2*rate
	}
	slices.Sort(d.at)
	for i, from := range d.at {
		for j, to := range d.at[i:] {
			if most := burst + rate*(to-from).Seconds() + lease + more; float64(j+1) > most {
				d.w.Fail("%d calls in %v, want %v at most: %+v", j+1, to-from, most, b)
				return
			}
		}
	}
}
