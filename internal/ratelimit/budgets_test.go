package ratelimit_test

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/capgate/capgate/internal/call"
	"github.com/capgate/capgate/internal/ratelimit"
	"github.com/capgate/capgate/internal/tenant"
	"github.com/capgate/capgate/internal/testkit/check"
)

// toMidnight passes the time until so long after the end of a day of UTC.
func toMidnight(after time.Duration) {
	pass(time.Until(time.Now().UTC().Truncate(24 * time.Hour).Add(24*time.Hour + after)))
}

// toMonth passes the time until so long after the end of a month of UTC.
func toMonth(after time.Duration) {
	now := time.Now().UTC()
	pass(time.Until(time.Date(now.Year(), now.Month()+1, 1, 0, 0, 0, 0, time.UTC).Add(after)))
}

func setUnavailable(m *model, unavailable bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.unavailable = unavailable
}

// TestMonths: a budget of a month is that of all its days.
func TestMonths(t *testing.T) {
	t.Parallel()
	check.Bubble(t, func(t *testing.T) {
		toMonth(-25 * time.Hour) // a limiter has many timers in a month
		l := ratelimit.New(ratelimit.Config{Store: newModel().replica("a")})
		defer run(l)()
		s := settings(tenant.Bounds{PerMonth: 6400})
		if ok, _ := made(l, s, call.Call{}, 3000); ok != 3000 {
			t.Errorf("%d calls on one day, want 3000", ok)
		}
		toMidnight(time.Second)
		ok, refusal := made(l, s, call.Call{}, 6000)
		if ok != 3400 || refusal.Reason != "BUDGET_EXHAUSTED" || refusal.RetryAfter < 23*time.Hour {
			t.Errorf("%d calls on the next, want 3400; %+v", ok, refusal)
		}
		toMonth(time.Second)
		if ok, _ := made(l, s, call.Call{}, 3000); ok != 3000 {
			t.Errorf("%d calls in the next month, want 3000", ok)
		}
	})
}

// TestMidnight: leased calls that were not made belong to the day, or month, that is over: they neither add to the next
// budget nor are they returned to it.
func TestMidnight(t *testing.T) {
	t.Parallel()
	for name, bounds := range map[string]tenant.Bounds{"day": {PerDay: 6400}, "month": {PerMonth: 6400}} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			check.Bubble(t, func(t *testing.T) {
				toMonth(-50 * time.Millisecond)
				l := ratelimit.New(ratelimit.Config{Store: newModel().replica("a")})
				defer run(l)()
				s := settings(bounds)
				if ok, _ := made(l, s, call.Call{}, 10); ok != 10 {
					t.Fatalf("%d calls before midnight", ok)
				}
				pass(1100 * time.Millisecond) // in the first second calls may be made that were leased before
				ok, _ := made(l, s, call.Call{}, 7000)
				pass(time.Minute) // unused leases are returned
				more, _ := made(l, s, call.Call{}, 7000)
				if ok+more != 6400 {
					t.Errorf("%d and %d calls of a budget of 6400", ok, more)
				}
			})
		})
	}
}

// TestRejectedCallsCostNothing: a call that gets no place takes nothing of a budget, be it of the same limit or of
// another.
func TestRejectedCallsCostNothing(t *testing.T) {
	for name, s := range map[string]*tenant.Settings{
		"same": settings(tenant.Bounds{PerDay: 100, Concurrent: 1}),
		"another": settings(tenant.Bounds{PerDay: 100},
			tenant.Limit{Capability: "weather", Bounds: tenant.Bounds{Concurrent: 1}}),
		"two others": settings(tenant.Bounds{PerMonth: 1000},
			tenant.Limit{Capability: "weather", Bounds: tenant.Bounds{PerDay: 100}},
			tenant.Limit{Per: "user", Bounds: tenant.Bounds{Concurrent: 1}}),
	} {
		t.Run(name, func(t *testing.T) {
			alone(t, func(t *testing.T, l *ratelimit.Limiter, _ *model) {
				c := call.Call{Capability: "weather", User: "ann"}
				var running ratelimit.Permit
				if refusal := try(l, s, c, &running); refusal != nil {
					t.Fatal(refusal)
				}
				for range 500 {
					var p ratelimit.Permit
					if refusal := try(l, s, c, &p); refusal == nil || refusal.Reason != "TOO_MANY_CALLS" {
						t.Fatalf("%+v", refusal)
					}
					l.Release(0, &p)
				}
				l.Release(0, &running)
				pass(time.Second)
				if ok, refusal := made(l, s, c, 200); ok != 99 || refusal.Reason != "BUDGET_EXHAUSTED" {
					t.Errorf("%d calls, want the 99 that are left; %+v", ok, refusal)
				}
			})
		})
	}
}

// TestBudgetsWithoutTheStore: each replica makes its share of what is left, a tenth of its share of what it does not
// know, and its share of the next month or day.
func TestBudgetsWithoutTheStore(t *testing.T) {
	t.Parallel()
	for name, bounds := range map[string]tenant.Bounds{"day": {PerDay: 900}, "month": {PerMonth: 900}} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			check.Bubble(t, func(t *testing.T) {
				toMonth(-time.Hour)
				m, s := newModel(), settings(bounds)
				var all []*ratelimit.Limiter
				for _, name := range []string{"a", "b", "c"} {
					l := ratelimit.New(ratelimit.Config{Store: m.replica(name), Replicas: func() int { return 3 }})
					defer run(l)()
					all = append(all, l)
				}
				synctest.Wait()
				_, _ = made(all[1], s, call.Call{}, 1)
				if ok, _ := made(all[0], s, call.Call{}, 300); ok != 300 {
					t.Fatalf("%d calls of the first", ok)
				}
				pass(10 * time.Second) // leases are returned
				_, _ = made(all[0], s, call.Call{}, 1)
				_, _ = made(all[1], s, call.Call{}, 1)
				setUnavailable(m, true)
				var ok [3]int
				for i, l := range all {
					ok[i], _ = made(l, s, call.Call{}, 900)
				}
				// 597 are left when the store becomes unavailable; the first two also have a lease of 14 at most
				if share := 597 / 3; ok[0] < share || ok[0] > share+14 || ok[1] < share || ok[1] > share+14 ||
					ok[2] != 30 {
					t.Errorf("%v calls, want %d of each that knows the rest, and 30", ok, share)
				}
				toMonth(time.Second)
				for i, l := range all {
					if ok, _ := made(l, s, call.Call{}, 900); ok != 300 {
						t.Errorf("replica %d makes %d calls of the next period, want 300", i, ok)
					}
				}
				setUnavailable(m, false)
				pass(10 * time.Second) // the store learns of them
				for i, l := range all {
					if ok, _ := made(l, s, call.Call{}, 10); ok != 0 {
						t.Errorf("replica %d makes %d calls more when the store is back", i, ok)
					}
				}
			})
		})
	}
}
