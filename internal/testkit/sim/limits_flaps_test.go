package sim_test

import (
	"context"
	"testing"
	"time"

	"github.com/capgate/capgate/internal/ratelimit"
	"github.com/capgate/capgate/internal/redisstore"
	"github.com/capgate/capgate/internal/tenant"
	"github.com/capgate/capgate/internal/testkit/sim"
)

// longestProbe is the longest time between two attempts to reach Redis.
const longestProbe = 2500 * time.Millisecond

// TestRatesWhileRedisFlaps: replicas admit no more calls of a rate than docs/run/limits.md allows, even if all of their
// connections to Redis break repeatedly, or are so slow that each replica mostly uses its own share.
func TestRatesWhileRedisFlaps(t *testing.T) {
	alone, ended := 0, 0
	check(t, func(w *sim.Simulation) {
		p := playFlapsOf(w)
		if len(p.admitted.alone) > 0 {
			alone++
		}
		if p.ended {
			ended++
		}
	})
	if manyRuns() && (alone < int(*seeds)*3/4 || ended < int(*seeds)) {
		t.Errorf("%d runs with a replica that used its own share, %d that came to their end", alone, ended)
	}
}

func playFlaps(w *sim.Simulation) { playFlapsOf(w) }

// playFlapsOf plays a run in which, for all replicas alike, connections are cut every two seconds, stay cut for two
// seconds, are slow (120 ± 60 ms), or are slow and cut.
func playFlapsOf(w *sim.Simulation) *limitsRun {
	n := int(w.Draw("limit") % 1_000_000)
	rate := 1 + n%40
	b := tenant.Bounds{CallsPerSecond: rate, Burst: max(rate/10, 1) + n/64%rate}
	p := &limitsRun{settings: &tenant.Settings{ID: "acme", Limits: tenant.Limits{Bounds: b}}, rounds: 40}
	p.admitted = newAdmissions(w, b)
	p.admitted.together = true
	p.cluster = newCluster(w, limitedReplicas, func(_ context.Context, s *redisstore.Store, name string) (
		*ratelimit.Limiter, func(context.Context),
	) {
		l := ratelimit.New(ratelimit.Config{Store: s.Limits(name), Replicas: func() int { return limitedReplicas },
			Jitter: w.Jitter})
		return l, l.Run
	})
	p.copies(20)
	w.FaultRate(0)
	away := w.Seed%4 == 1
	if away {
		p.admitted.apart = longestProbe
	}
	p.flap(w.Seed%4 >= 2, w.Seed%4 != 2, away)
	w.Check = p.check
	p.start()
	w.Settle(5 * time.Minute)
	p.admitted.checkRate()
	p.ended = true
	p.end()
	return p
}

// flap delays connections and cuts them every two seconds. With away, Redis is unreachable for the following two.
func (p *limitsRun) flap(late, cut, away bool) {
	silent := false
	each := func(f func(*sim.Site)) {
		for _, r := range p.replicas {
			r.mu.Lock()
			f(r.site)
			r.mu.Unlock()
		}
	}
	if late {
		each(func(s *sim.Site) {
			s.Late(func() time.Duration {
				return 30*time.Millisecond + time.Duration(p.Draw("late")%uint64(60*time.Millisecond))
			})
		})
	}
	var again func()
	again = func() {
		silent = away && !silent
		each(func(s *sim.Site) {
			s.Silence(silent)
			s.Cut()
		})
		if p.ctx.Err() == nil {
			p.After(2*time.Second, again)
		}
	}
	if cut {
		p.After(2*time.Second, again)
	}
}
