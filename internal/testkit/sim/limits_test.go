package sim_test

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/capgate/capgate/internal/call"
	"github.com/capgate/capgate/internal/ratelimit"
	"github.com/capgate/capgate/internal/redisstore"
	"github.com/capgate/capgate/internal/tenant"
	"github.com/capgate/capgate/internal/testkit/sim"
)

// TestLimits: under all faults of replicas and Redis, replicas admit no more calls than docs/run/limits.md allows, and
// no permit is lost permanently.
//
// For each kind of limit, Redis responds to every replica in time in some runs, and not in others. All runs reach their
// ends.
func TestLimits(t *testing.T) {
	all := map[string]*limitsTally{}
	// A run is short. In only one run of forty, no replica uses its own share.
	runs := max(*seeds, manyLimits)
	checkSeeds(t, runs, func(w *sim.Simulation) {
		p := playLimitsOf(w)
		kind := kindOf(p.settings.Limits.Bounds)
		if all[kind] == nil {
			all[kind] = &limitsTally{}
		}
		all[kind].add(p)
	})
	for kind, n := range all {
		t.Logf("%s: %+v", kind, *n)
		loses := kind == "rate" || n.lost > 0
		if n.ended < n.runs || manyRuns() && runs >= 200 && (n.alone == 0 || n.alone == n.runs || !loses) {
			t.Errorf("%s: %+v, want all to end, some with a replica that used its own share, and some without", kind,
				*n)
		}
	}
}

// limitsTally counts the runs of a kind of limit.
type limitsTally struct {
	runs  int
	alone int // runs in which a replica used its own share
	lost  int // runs in which a failover lost calls of a quota, or permits
	ended int // runs that checked the state after the faults
}

func (n *limitsTally) add(p *limitsRun) {
	n.runs++
	if len(p.admitted.alone) > 0 {
		n.alone++
	}
	if sum := p.admitted.lostSince(0); sum.calls+sum.permits > 0 {
		n.lost++
	}
	if p.ended {
		n.ended++
	}
}

const (
	limitedReplicas = 3
	callers         = 6
	longestWait     = time.Second     // of a call for its limits: several rounds of 100 ms for Redis
	longestCall     = 2 * time.Second // shorter than the lifetime of a silent replica's permits
	permitLifetime  = 5 * time.Second
)

// limitsRun is a run of callers at several replicas with one limit.
type limitsRun struct {
	*cluster[*ratelimit.Limiter]
	settings *tenant.Settings
	admitted *admissions
	ended    bool // finally has run
	rounds   int  // of each caller
}

func playLimits(w *sim.Simulation) { playLimitsOf(w) }

func playLimitsOf(w *sim.Simulation) *limitsRun {
	p := &limitsRun{settings: &tenant.Settings{ID: "acme", Limits: tenant.Limits{Bounds: boundsOf(w)}}, rounds: 12}
	p.admitted = newAdmissions(w, p.settings.Limits.Bounds)
	p.cluster = newCluster(w, limitedReplicas, func(_ context.Context, s *redisstore.Store, name string) (
		*ratelimit.Limiter, func(context.Context),
	) {
		l := ratelimit.New(ratelimit.Config{Store: s.Limits(name), Replicas: func() int { return limitedReplicas },
			Jitter: w.Jitter})
		return l, l.Run
	})
	p.copies(20)
	w.Faults = func() []sim.Event {
		lost := func() { p.admitted.lose(p.redis.Master()) }
		return p.faults(func(time.Time, int) { lost() }, lost)
	}
	w.Check = p.check
	p.start()
	w.Chaos(1500)
	w.Settle(time.Minute)
	w.Go("finally", p.finally)
	w.Settle(time.Minute)
	p.admitted.checkRate()
	p.end()
	return p
}

// boundsOf returns the limit of a run: a rate, a quota, or concurrent calls.
func boundsOf(w *sim.Simulation) tenant.Bounds {
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

func kindOf(b tenant.Bounds) string {
	switch {
	case b.CallsPerSecond > 0:
		return "rate"
	case b.PerDay > 0:
		return "quota"
	}
	return "concurrent calls"
}

func (p *limitsRun) start() {
	for i := range callers {
		p.Go(fmt.Sprintf("caller%d", i), p.caller)
	}
}

// caller makes calls: some alone, some in a burst, some that last.
func (p *limitsRun) caller(a *sim.Actor) {
	for range p.rounds {
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

// call makes a call of a duration. It returns false if it was not admitted.
func (p *limitsRun) call(a *sim.Actor, l *life[*ratelimit.Limiter], takes time.Duration) bool {
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

// take charges the limits of a call, and waits while there may be capacity soon. waited excludes the time until the
// caller's turn, which belongs to the simulation.
func (p *limitsRun) take(a *sim.Actor, l *life[*ratelimit.Limiter], permit *ratelimit.Permit) (taken bool,
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

// finally checks that no permit is lost: together, the replicas admit as many concurrent calls as permitted.
func (p *limitsRun) finally(a *sim.Actor) {
	most := p.settings.Limits.Concurrent
	if !a.TurnWhen(p.ctx, "begins", func() bool { return len(p.up()) == len(p.replicas) }) {
		p.Fail("not all replicas are up after the faults")
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
			p.Fail("the run ends before its end is checked")
			return
		}
	}
	p.ended = true
}

// check compares the running calls with the limit.
func (p *limitsRun) check() error {
	for _, r := range p.replicas {
		if l := r.now(); l != nil {
			p.admitted.lives[l] = true
		}
	}
	p.admitted.look(p.redis.Master())
	return p.admitted.check()
}
