package redisstore_test

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/capgate/capgate/internal/call"
	"github.com/capgate/capgate/internal/ratelimit"
	"github.com/capgate/capgate/internal/redisstore"
	"github.com/capgate/capgate/internal/tenant"
	"github.com/capgate/capgate/internal/testkit/check"
	"github.com/capgate/capgate/internal/testkit/redistest"
)

// TestThreeReplicasKeepToALimit: with a real Redis, and most of the calls at one replica, they admit no more calls than
// their rate, and nearly as many. Only time in which neither this process nor Redis stands still counts for the latter.
func TestThreeReplicasKeepToALimit(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	url := server.URL()
	const rate, burst, window = 500, 50, 8 * time.Second
	s := &tenant.Settings{ID: "acme", Limits: tenant.Limits{Bounds: tenant.Bounds{CallsPerSecond: rate, Burst: burst}}}
	ctx, stop := context.WithCancel(context.Background())
	var running, callers sync.WaitGroup
	var admitted, asked atomic.Int64
	var ends atomic.Bool
	begun := time.Now()
	for i, workers := range []int{12, 3, 1} {
		store := open(t, redisstore.Config{URL: url})
		l := ratelimit.New(ratelimit.Config{Store: store.Limits(string(rune('a' + i))), Replicas: func() int {
			return 3
		}})
		running.Go(func() { l.Run(ctx) })
		for range workers {
			callers.Go(func() {
				for !ends.Load() {
					asked.Add(1)
					if admit(t, l, s) {
						admitted.Add(1)
					}
					<-time.After(time.Millisecond)
				}
			})
		}
	}
	lively := livelyFor(server, window)
	ends.Store(true)
	check.Ended(t, &callers, "the end of the calls")
	took := time.Since(begun)
	stop()
	check.Ended(t, &running, "the background work to end")
	n := admitted.Load()
	due := rate * took.Seconds()
	if most := due + burst + 3*rate/4; float64(n) > most {
		t.Errorf("%d calls, want %v at most", n, most)
	}
	if least := 0.95 * min(rate*lively.Seconds(), float64(asked.Load())); float64(n) < least {
		t.Errorf("%d of %d calls, want %v at least, in %v; the machine stood still for the rest of %v", n, asked.Load(),
			least, lively, took)
	}
}

// livelyFor polls Redis until neither this process nor Redis has stood still for some time, so that calls could be
// admitted. It returns that time, which is less if it has not come in four times patience.
func livelyFor(server *redistest.Server, window time.Duration) (lively time.Duration) {
	const short = 20 * time.Millisecond // which the burst makes up for
	for begun, last := time.Now(), time.Now(); lively < window && last.Sub(begun) < 4*patience; {
		<-time.After(time.Millisecond)
		server.Do("PING")
		now := time.Now()
		if gap := now.Sub(last); gap <= short {
			lively += gap
		}
		last = now
	}
	return lively
}

// admit makes a call that ends at once.
func admit(t *testing.T, l *ratelimit.Limiter, s *tenant.Settings) bool {
	t.Helper()
	var p ratelimit.Permit
	for {
		refusal, ok := l.Take(s, &call.Call{}, 0, &p)
		if ok || refusal != nil {
			l.Release(0, &p)
			return ok
		}
		waited := make(chan struct{})
		l.Wait(&p, func() { close(waited) })
		check.Received(t, waited, "the answer to a call that waits")
	}
}

// TestCommandsOfAQuietTenant: a tenant below its limits costs Redis few commands, and one without calls none.
func TestCommandsOfAQuietTenant(t *testing.T) {
	t.Parallel()
	store := open(t, redisstore.Config{URL: redistest.Start(t).URL()})
	l := ratelimit.New(ratelimit.Config{Store: store.Limits("a")})
	ctx, stop := context.WithCancel(context.Background())
	var running sync.WaitGroup
	running.Go(func() { l.Run(ctx) })
	defer check.Ended(t, &running, "the background work to end")
	defer stop()
	s := &tenant.Settings{ID: "acme", Limits: tenant.Limits{Bounds: tenant.Bounds{CallsPerSecond: 1_000_000,
		Concurrent: 100, PerDay: 1_000_000_000}}}
	const calls = 10_000
	for i := range calls {
		if !admit(t, l, s) {
			t.Fatal("refused")
		}
		if i%10 == 0 {
			<-time.After(time.Millisecond)
		}
	}
	commands := store.Stats().Commands[redisstore.Limits]
	t.Logf("%d commands for %d calls", commands, calls)
	if commands > calls/10 {
		t.Errorf("%d commands for %d calls", commands, calls)
	}
}

// TestLimitsWithoutRedis: while Redis is down a replica uses its share, and Redis' limits when it is back without
// data.
func TestLimitsWithoutRedis(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	store := open(t, redisstore.Config{URL: server.URL(), Timeout: 200 * time.Millisecond, Dial: time.Second})
	l := ratelimit.New(ratelimit.Config{Store: store.Limits("a"), Replicas: func() int { return 2 }})
	ctx, stop := context.WithCancel(context.Background())
	var running sync.WaitGroup
	running.Go(func() { l.Run(ctx) })
	defer check.Ended(t, &running, "the background work to end")
	defer stop()
	s := &tenant.Settings{ID: "acme", Limits: tenant.Limits{Bounds: tenant.Bounds{PerMonth: 1000}}}
	check.Until(t, "a share of the quota", func() (bool, string) { // without one, the quota's use is unknown
		return admit(t, l, s) && l.Stats().Granted > 0, fmt.Sprintf("%+v", l.Stats())
	})
	server.Kill()
	n := 0
	for admit(t, l, s) {
		n++
	}
	if n < 400 || n > 1000 { // half of the rest, or all if the other replica was not known yet
		t.Errorf("%d calls of a budget of 1000 while Redis is down", n)
	}
	if l.Stats().OwnShare == 0 {
		t.Error("none by the replica's own share")
	}
	server.Restart()
	check.Until(t, "Redis, which is back, to be asked", func() (bool, string) {
		admit(t, l, s)
		stats := l.Stats()
		return stats.Granted+stats.Denied >= 3, fmt.Sprintf("%+v", stats)
	})
}

// TestRatesWhileConnectionsBreak: connections to Redis that break again and again give no fresh burst, neither at a
// replica nor in Redis. The rate is small, so that the time which the test takes hardly counts.
func TestRatesWhileConnectionsBreak(t *testing.T) {
	t.Parallel()
	const rate, burst, replicas = 1, 60, 2
	server := redistest.Start(t)
	s := &tenant.Settings{ID: "acme", Limits: tenant.Limits{Bounds: tenant.Bounds{CallsPerSecond: rate, Burst: burst}}}
	ctx, stop := context.WithCancel(context.Background())
	var running sync.WaitGroup
	defer check.Ended(t, &running, "the background work to end")
	defer stop()
	var all []*ratelimit.Limiter
	for i := range replicas {
		store := open(t, redisstore.Config{URL: server.URL()})
		l := ratelimit.New(ratelimit.Config{Store: store.Limits(string(rune('a' + i))), Replicas: func() int {
			return replicas
		}})
		running.Go(func() { l.Run(ctx) })
		all = append(all, l)
	}
	begun, admitted := time.Now(), 0
	calls := func(l *ratelimit.Limiter) {
		for range 20 {
			if admit(t, l, s) {
				admitted++
			}
		}
	}
	for range 5 {
		for _, l := range all {
			last := l.Stats()
			check.Until(t, "Redis to answer", func() (bool, string) {
				calls(l)
				is := l.Stats()
				return is.Granted+is.Denied > last.Granted+last.Denied, fmt.Sprintf("%+v", is)
			})
		}
		server.BlackHole()
		server.Cut()
		for _, l := range all {
			last := l.Stats().OwnShare
			check.Until(t, "the replica to use its own share", func() (bool, string) {
				calls(l)
				is := l.Stats()
				return is.OwnShare > last, fmt.Sprintf("%+v", is)
			})
		}
		server.Heal()
	}
	took := time.Since(begun)
	most := burst + rate*took.Seconds() + 2*replicas // leases, and a share of one call that is not charged yet
	t.Logf("%d calls in %v, %.1f at most", admitted, took, most)
	if float64(admitted) > most || admitted < burst {
		t.Errorf("%d calls in %v, want %v at most", admitted, took, most)
	}
}
