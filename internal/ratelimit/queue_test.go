package ratelimit_test

import (
	"context"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/capgate/capgate/internal/call"
	"github.com/capgate/capgate/internal/ratelimit"
	"github.com/capgate/capgate/internal/tenant"
	"github.com/capgate/capgate/internal/testkit/check"
)

// many is a Store with a model for each tenant, all equally slow.
type many struct {
	mu    sync.Mutex
	delay time.Duration
	of    map[ratelimit.Owner]*model
}

func (m *many) Exchange(ctx context.Context, of ratelimit.Owner, asks []ratelimit.Demand) ([]ratelimit.Grant, error) {
	m.mu.Lock()
	one, delay := m.of[of], m.delay
	if one == nil {
		one = newModel()
		m.of[of] = one
	}
	m.mu.Unlock()
	pass(delay)
	return one.replica("a").Exchange(ctx, of, asks)
}

// TestNobodyWaitsInTheQueue: with more tenants than concurrent exchanges, and a store that hangs, no call waits
// longer than for a late response. Calls that are admitted meanwhile count when the store responds.
func TestNobodyWaitsInTheQueue(t *testing.T) {
	t.Parallel()
	check.Bubble(t, func(t *testing.T) {
		store := &many{delay: 5 * time.Second, of: map[ratelimit.Owner]*model{}}
		l := ratelimit.New(ratelimit.Config{Store: store})
		defer run(l)()
		const perDay = 1000
		var mu sync.Mutex
		made, longest := map[string]int{}, time.Duration(0)
		var callers sync.WaitGroup
		for i := range 200 {
			s := &tenant.Settings{ID: fmt.Sprint(i),
				Limits: tenant.Limits{Bounds: tenant.Bounds{PerDay: perDay, Concurrent: 5}}}
			callers.Go(func() {
				for range 100 { // the store responds to some of them meanwhile
					var p ratelimit.Permit
					began := time.Now()
					refusal := try(l, s, call.Call{}, &p)
					mu.Lock()
					longest = max(longest, time.Since(began))
					if refusal == nil {
						made[s.ID]++
					}
					mu.Unlock()
					pass(time.Second)
					l.Release(0, &p)
				}
			})
		}
		callers.Wait()
		if longest > 101*time.Millisecond {
			t.Errorf("a call waited for %v", longest)
		}
		store.mu.Lock()
		store.delay = 0
		store.mu.Unlock()
		pass(2 * time.Minute)
		for id, n := range made {
			var told int64
			for b, use := range store.of[ratelimit.Owner{ID: id}].budgets {
				if b.limit == call.PerDay {
					told += use.Calls
				}
			}
			if n < 90 || told < int64(n) || told > int64(n)+perDay/64 {
				t.Errorf("tenant %s made %d calls, and the store knows of %d", id, n, told)
			}
		}
	})
}

// TestTheNextTenant with an id begins with unused limits, in memory and in the store.
func TestTheNextTenant(t *testing.T) {
	t.Parallel()
	check.Bubble(t, func(t *testing.T) {
		l := ratelimit.New(ratelimit.Config{Store: &many{of: map[ratelimit.Owner]*model{}}})
		defer run(l)()
		for _, uid := range []string{"first", "second", "third"} {
			r := tenant.Record{ID: "acme", UID: uid, Limits: &tenant.Limits{Bounds: tenant.Bounds{PerDay: 100},
				Each: []tenant.Limit{{Per: "user", Bounds: tenant.Bounds{PerDay: 100}}}}}
			if ok, _ := made(l, r.Settings(&tenant.Limits{}), call.Call{User: "ann"}, 200); ok != 100 {
				t.Errorf("%s made %d calls, want 100", uid, ok)
			}
			pass(time.Second)
		}
	})
}
