package redisstore_test

import (
	"context"
	"fmt"
	"sync"
	"testing"

	"github.com/capgate/capgate/internal/call"
	"github.com/capgate/capgate/internal/ratelimit"
	"github.com/capgate/capgate/internal/redisstore"
	"github.com/capgate/capgate/internal/tenant"
	"github.com/capgate/capgate/internal/testkit/check"
	"github.com/capgate/capgate/internal/testkit/redistest"
)

// hold makes up to most calls, one after the other, and returns those that were admitted.
func hold(t *testing.T, l *ratelimit.Limiter, s *tenant.Settings, most int) (running []*ratelimit.Permit) {
	t.Helper()
	for range most {
		p := new(ratelimit.Permit)
		for {
			refusal, ok := l.Take(s, &call.Call{}, 0, p)
			if refusal != nil {
				l.Release(0, p)
				return running
			}
			if ok {
				break
			}
			waited := make(chan struct{})
			l.Wait(p, func() { close(waited) })
			check.Received(t, waited, "the answer to a call that waits")
		}
		running = append(running, p)
	}
	return running
}

// TestPlacesWhileRedisIsFrozen: a replica that had all permits keeps to its share, as the others do, so that their
// concurrent calls do not exceed the limit.
func TestPlacesWhileRedisIsFrozen(t *testing.T) {
	t.Parallel()
	const most, replicas = 10, 3
	server := redistest.Start(t)
	s := &tenant.Settings{ID: "acme", Limits: tenant.Limits{Bounds: tenant.Bounds{Concurrent: most}}}
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
	var before []*ratelimit.Permit
	// on a busy machine Redis is late, and it has its share at first
	check.Holds(t, "a replica to have all places", func() bool {
		before = append(before, hold(t, all[0], s, most-len(before))...)
		return len(before) == most
	})

	exchanges := func() int64 { is := all[0].Stats(); return is.Granted + is.Denied }
	last := exchanges()
	check.Holds(t, "Redis to know of them", func() bool { return exchanges() > last })
	server.Freeze()
	defer server.Thaw()
	// Redis may still answer a question from before, and learns of no call that ends.
	check.Until(t, "the replica to notice that Redis is silent", func() (bool, string) {
		for _, p := range before {
			all[0].Release(0, p)
		}
		before = hold(t, all[0], s, 2*most)
		return len(before) < most, fmt.Sprintf("it makes %d calls at once", len(before))
	})
	by, sum := []int{len(before)}, len(before)
	for _, l := range all[1:] {
		n := len(hold(t, l, s, 2*most))
		by, sum = append(by, n), sum+n
	}
	if sum > most {
		t.Errorf("%d calls at once, of %d; by replica %v", sum, most, by)
	}
	for i, n := range by {
		if n == 0 {
			t.Errorf("replica %d may make none", i)
		}
	}
}
