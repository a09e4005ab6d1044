package ratelimit_test

import (
	"context"
	"sync"
	"testing"
	"time"

	"github.com/capgate/capgate/internal/call"
	"github.com/capgate/capgate/internal/ratelimit"
	"github.com/capgate/capgate/internal/tenant"
	"github.com/capgate/capgate/internal/testkit/check"
)

// plenty is a Store that grants every demand.
type plenty struct{}

func (plenty) Exchange(_ context.Context, _ ratelimit.Owner, asks []ratelimit.Demand) ([]ratelimit.Grant, error) {
	answers := make([]ratelimit.Grant, len(asks))
	for i, a := range asks {
		answers[i] = ratelimit.Grant{Calls: a.Want, Permits: a.Retain + a.Need + a.Spare, DayEnds: 12 * time.Hour,
			MonthEnds: 300 * time.Hour}
	}
	return answers, nil
}

// pass advances the time of a synctest bubble.
func pass(d time.Duration) { <-time.After(d) }

// run runs a Limiter until stop is called.
func run(l *ratelimit.Limiter) (stop func()) {
	ctx, cancel := context.WithCancel(context.Background())
	var running sync.WaitGroup
	running.Go(func() { l.Run(ctx) })
	return func() {
		cancel()
		running.Wait()
	}
}

// try makes a call as the gateway does, and waits if necessary.
func try(l *ratelimit.Limiter, s *tenant.Settings, c call.Call, p *ratelimit.Permit) *call.Refusal {
	for {
		refusal, ok := l.Take(s, &c, 0, p)
		if refusal != nil || ok {
			return refusal
		}
		waited := make(chan struct{})
		l.Wait(p, func() { close(waited) })
		<-waited
	}
}

// made returns the number of admitted calls of n, and the last refusal. The calls end at once.
func made(l *ratelimit.Limiter, s *tenant.Settings, c call.Call, n int) (ok int, last *call.Refusal) {
	for range n {
		var p ratelimit.Permit
		if refusal := try(l, s, c, &p); refusal != nil {
			last = refusal
		} else {
			ok++
		}
		l.Release(0, &p)
	}
	return ok, last
}

func settings(b tenant.Bounds, each ...tenant.Limit) *tenant.Settings {
	return &tenant.Settings{ID: "acme", Limits: tenant.Limits{Bounds: b, Each: each}}
}

// alone runs a test with one replica in a synctest bubble.
func alone(t *testing.T, test func(t *testing.T, l *ratelimit.Limiter, m *model)) {
	t.Parallel()
	check.Bubble(t, func(t *testing.T) {
		m := newModel()
		l := ratelimit.New(ratelimit.Config{Store: m.replica("a")})
		defer run(l)()
		test(t, l, m)
	})
}

func TestCallsPerSecond(t *testing.T) {
	alone(t, func(t *testing.T, l *ratelimit.Limiter, _ *model) {
		s := settings(tenant.Bounds{CallsPerSecond: 10, Burst: 20})
		ok, refusal := made(l, s, call.Call{}, 100)
		if ok != 20 {
			t.Errorf("%d calls at once, want 20", ok)
		}
		if refusal == nil || refusal.Reason != "RATE_LIMITED" || refusal.Kind != call.ResourceExhausted ||
			refusal.RetryAfter <= 0 || refusal.RetryAfter > time.Second || refusal.Quota != "tenant:acme" ||
			refusal.Metadata["max"] != "10" {
			t.Errorf("%+v", refusal)
		}
		pass(time.Second)
		if ok, _ = made(l, s, call.Call{}, 100); ok < 9 || ok > 11 {
			t.Errorf("%d calls a second later, want 10", ok)
		}
	})
}

func TestNothingIsLimited(t *testing.T) {
	alone(t, func(t *testing.T, l *ratelimit.Limiter, m *model) {
		for _, s := range []*tenant.Settings{nil, settings(tenant.Bounds{}),
			settings(tenant.Bounds{PerDay: 1}, tenant.Limit{Capability: "weather", Bounds: tenant.Bounds{PerDay: 1}})} {
			if ok, _ := made(l, s, call.Call{}, 1); ok != 1 {
				t.Errorf("%+v", s)
			}
		}
		if m.commands > 1 {
			t.Errorf("%d commands", m.commands)
		}
	})
}

func TestConcurrentCalls(t *testing.T) {
	alone(t, func(t *testing.T, l *ratelimit.Limiter, _ *model) {
		s := settings(tenant.Bounds{Concurrent: 3},
			tenant.Limit{Capability: "weather", Bounds: tenant.Bounds{Concurrent: 2}})
		c := call.Call{Capability: "weather"}
		var p [3]ratelimit.Permit
		for i := range p {
			refusal := try(l, s, c, &p[i])
			if (refusal != nil) != (i == 2) {
				t.Errorf("%d: %v", i, refusal)
			}
			if refusal != nil && (refusal.Reason != "TOO_MANY_CALLS" || refusal.Metadata["max"] != "2") {
				t.Errorf("%+v", refusal)
			}
		}
		if refusal := try(l, s, call.Call{Capability: "other"}, &p[2]); refusal != nil {
			t.Errorf("the place of the refused call is lost: %v", refusal)
		}
		l.Release(0, &p[0])
		if refusal := try(l, s, c, &p[0]); refusal != nil {
			t.Errorf("a place that was given back: %v", refusal)
		}
		for i := range p {
			l.Release(0, &p[i])
		}
	})
}

func TestBudgets(t *testing.T) {
	alone(t, func(t *testing.T, l *ratelimit.Limiter, _ *model) {
		s := settings(tenant.Bounds{PerDay: 100})
		for day := range 3 {
			ok, refusal := made(l, s, call.Call{}, 200)
			if ok != 100 || refusal.Reason != "BUDGET_EXHAUSTED" || refusal.RetryAfter > 24*time.Hour ||
				refusal.RetryAfter < time.Minute {
				t.Errorf("day %d: %d calls, %+v", day, ok, refusal)
			}
			pass(time.Until(time.Now().UTC().Truncate(24 * time.Hour).Add(24*time.Hour + time.Second)))
		}
	})
}

// TestLeasesAreGivenBack: another replica can use the unused leases of one.
func TestLeasesAreGivenBack(t *testing.T) {
	t.Parallel()
	check.Bubble(t, func(t *testing.T) {
		m := newModel()
		a, b := ratelimit.New(ratelimit.Config{Store: m.replica("a")}),
			ratelimit.New(ratelimit.Config{Store: m.replica("b")})
		defer run(a)()
		defer run(b)()
		s := settings(tenant.Bounds{PerDay: 1000})
		used := 0
		for range 100 {
			ok, _ := made(a, s, call.Call{}, 1)
			used += ok
			pass(10 * time.Millisecond)
		}
		pass(5 * time.Second)
		if ok, _ := made(b, s, call.Call{}, 2000); used+ok != 1000 {
			t.Errorf("%d and %d calls, want 1000 together", used, ok)
		}
	})
}

func TestUsersHaveLimitsOfTheirOwn(t *testing.T) {
	alone(t, func(t *testing.T, l *ratelimit.Limiter, _ *model) {
		s := settings(tenant.Bounds{}, tenant.Limit{Per: "user", Bounds: tenant.Bounds{CallsPerSecond: 5}})
		for _, user := range []string{"ann", "bob", ""} {
			if ok, _ := made(l, s, call.Call{User: user}, 20); ok != 5 {
				t.Errorf("%q made %d calls, want 5", user, ok)
			}
		}
	})
}

// TestInventedUsersAreBounded: users beyond the maximum share one scope, until others are forgotten.
func TestInventedUsersAreBounded(t *testing.T) {
	alone(t, func(t *testing.T, l *ratelimit.Limiter, _ *model) {
		s := settings(tenant.Bounds{}, tenant.Limit{Per: "user", Bounds: tenant.Bounds{CallsPerSecond: 5}})
		user := func(i int) call.Call {
			return call.Call{User: string([]rune{rune('a' + i%26), rune('a' + i/26%26), rune('a' + i/676%26),
				rune('a' + i/17576)})}
		}
		for i := range ratelimit.MaxTenantScopes {
			_, _ = made(l, s, user(i), 1)
		}
		ok := 0
		for i := range 100 {
			n, _ := made(l, s, user(ratelimit.MaxTenantScopes+i), 1)
			ok += n
		}
		if ok != 5 {
			t.Errorf("%d calls of 100 users too many, want 5", ok)
		}
		pass(5 * time.Second)
		if ok, _ := made(l, s, user(ratelimit.MaxTenantScopes), 20); ok != 5 {
			t.Errorf("%d calls of one of them when the others are forgotten, want 5", ok)
		}
	})
}

func TestShadowRefusesNothing(t *testing.T) {
	alone(t, func(t *testing.T, l *ratelimit.Limiter, _ *model) {
		s := settings(tenant.Bounds{CallsPerSecond: 5})
		s.Limits.Shadow = true
		beyond := 0
		for range 1000 {
			var p ratelimit.Permit
			if refusal, ok := l.Take(s, &call.Call{}, 0, &p); refusal != nil || !ok {
				t.Fatal("refused", refusal, ok)
			}
			if which, would := p.Shadowed(); would {
				if which != call.CallsPerSecond {
					t.Error(which)
				}
				beyond++
			}
			l.Release(0, &p)
			pass(time.Millisecond)
		}
		if beyond < 950 || beyond > 995 {
			t.Errorf("%d of 1000 calls in a second would have been refused, of a limit of 5", beyond)
		}
	})
}

// TestAllPlacesAreTaken: a further call is rejected at once, and counted in shadow mode.
func TestAllPlacesAreTaken(t *testing.T) {
	alone(t, func(t *testing.T, l *ratelimit.Limiter, m *model) {
		s := settings(tenant.Bounds{Concurrent: 2})
		var p [2]ratelimit.Permit
		for i := range p {
			if refusal := try(l, s, call.Call{}, &p[i]); refusal != nil {
				t.Fatal(refusal)
			}
		}
		before := m.commands
		var none ratelimit.Permit
		if refusal := try(l, s, call.Call{}, &none); refusal == nil || refusal.Reason != "TOO_MANY_CALLS" {
			t.Errorf("%+v", refusal)
		}
		if n := m.commands - before; n > 1 {
			t.Errorf("%d questions to the store for a call too many, want 1", n)
		}
		shadow := &tenant.Settings{ID: s.ID, Limits: s.Limits}
		shadow.Limits.Shadow = true
		seen := false
		for range 20 {
			var p ratelimit.Permit
			if refusal, ok := l.Take(shadow, &call.Call{}, 0, &p); refusal != nil || !ok {
				t.Fatal("refused", refusal, ok)
			}
			_, would := p.Shadowed()
			seen = seen || would
			l.Release(0, &p)
			pass(10 * time.Millisecond)
		}
		if !seen {
			t.Error("no call was seen to be beyond the limit")
		}
		for i := range p {
			l.Release(0, &p[i])
		}
	})
}

// TestASlowStoreRefusesNobody while permits are available.
func TestASlowStoreRefusesNobody(t *testing.T) {
	alone(t, func(t *testing.T, l *ratelimit.Limiter, m *model) {
		m.delay = func() time.Duration { return 150 * time.Millisecond }
		s := settings(tenant.Bounds{Concurrent: 10})
		var p [5]ratelimit.Permit
		for i := range p {
			if refusal := try(l, s, call.Call{}, &p[i]); refusal != nil {
				t.Errorf("%d: %v", i, refusal)
			}
			pass(60 * time.Millisecond) // the store has responded now
		}
		for i := range p {
			l.Release(0, &p[i])
		}
	})
}

func TestLimitsChange(t *testing.T) {
	alone(t, func(t *testing.T, l *ratelimit.Limiter, _ *model) {
		if ok, _ := made(l, settings(tenant.Bounds{PerDay: 10}), call.Call{}, 100); ok != 10 {
			t.Errorf("%d of 10", ok)
		}
		if ok, _ := made(l, settings(tenant.Bounds{PerDay: 25}), call.Call{}, 100); ok != 15 {
			t.Errorf("%d more when it is 25", ok)
		}
		if ok, _ := made(l, settings(tenant.Bounds{}), call.Call{}, 100); ok != 100 {
			t.Errorf("%d without", ok)
		}
		if ok, _ := made(l, settings(tenant.Bounds{PerDay: 20}), call.Call{}, 100); ok != 0 {
			t.Errorf("%d when it is 20", ok)
		}
	})
}
