package redisstore_test

import (
	"context"
	"fmt"
	"sync"
	"testing"

	"github.com/capgate/capgate/internal/ratelimit"
	"github.com/capgate/capgate/internal/redisstore"
	"github.com/capgate/capgate/internal/tenant"
	"github.com/capgate/capgate/internal/testkit/check"
	"github.com/capgate/capgate/internal/testkit/redistest"
	"github.com/capgate/capgate/policy/approvals"
)

// TestLimitsOfAnEmptiedRedis: what is used of a rate and of a quota stays used after Redis has lost its data, at the
// replica that knows it, and when that one has asked again also at one that starts later.
func TestLimitsOfAnEmptiedRedis(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	ctx, stop := context.WithCancel(context.Background())
	var running sync.WaitGroup
	defer check.Ended(t, &running, "the background work to end")
	defer stop()
	start := func(name string) *ratelimit.Limiter {
		store := open(t, redisstore.Config{URL: server.URL()})
		l := ratelimit.New(ratelimit.Config{Store: store.Limits(name)})
		running.Go(func() { l.Run(ctx) })
		return l
	}
	for name, b := range map[string]tenant.Bounds{
		"rate":  {CallsPerSecond: 1, Burst: 300}, // one a second is much less than the burst
		"quota": {PerDay: 300},
	} {
		s := &tenant.Settings{ID: name, Limits: tenant.Limits{Bounds: b}}
		old := start("old " + name)
		calls := func(l *ratelimit.Limiter, most int) (n int) {
			for range most {
				if admit(t, l, s) {
					n++
				}
			}
			return n
		}
		n := 0
		check.Until(t, "most of the calls", func() (bool, string) { // a Redis that answers late permits fewer at once
			n += calls(old, 250-n)
			return n >= 240, fmt.Sprint(name, ": ", n)
		})
		server.Do("FLUSHALL")
		last := old.Stats()
		sum := 0
		check.Until(t, "Redis to answer", func() (bool, string) {
			sum += calls(old, 1)
			is := old.Stats()
			return is.Granted+is.Denied > last.Granted+last.Denied, fmt.Sprintf("%+v", is)
		})
		if sum += calls(start("later "+name), 400); sum > 150 {
			t.Errorf("%s: %d calls after Redis has lost its data", name, sum)
		}
	}
}

// TestALostAnswerAllowsNothing: after Redis has lost its data, calls that were denied, for a session too, and calls
// that wait for an answer, are asked about again, by replicas that knew the answer and by one that starts later.
func TestALostAnswerAllowsNothing(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	start := func() *approvals.Service {
		return watching(t, open(t, redisstore.Config{URL: server.URL()}), approvals.Options{})
	}
	old := start()
	denied, waits := ask(t, old, request("1")), request("2")
	_, err := old.Deny(t.Context(), denied.Tenant, denied.ID, approvals.Answer{Remember: approvals.ThisSession})
	check.Must(t, err)
	waits.Session = "another"
	pending := ask(t, old, waits)
	server.Do("FLUSHALL")
	for when, k := range map[string]*approvals.Service{"old": old, "later": start()} {
		for id, r := range map[string]*approvals.Request{denied.ID: request("1"), pending.ID: waits} {
			if _, refusal := k.Redeem(t.Context(), id, r); refusal == nil {
				t.Errorf("%s: a call runs with the id of a lost approval", when)
			}
		}
		if a, granted, _ := k.Create(t.Context(), request("3")); granted || a.State == approvals.Approved {
			t.Errorf("%s: a call of the session runs without an answer: %+v", when, a)
		}
	}
}
