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

// TestARejectedCallReturnsItsPermitOnce: the permit of an earlier limit is returned when a later limit rejects the
// call, and not again when the call ends.
func TestARejectedCallReturnsItsPermitOnce(t *testing.T) {
	alone(t, func(t *testing.T, l *ratelimit.Limiter, _ *model) {
		s := settings(tenant.Bounds{Concurrent: 2},
			tenant.Limit{Capability: "weather", Bounds: tenant.Bounds{Concurrent: 1}})
		var running, other, none ratelimit.Permit
		if refusal := try(l, s, call.Call{Capability: "weather"}, &running); refusal != nil {
			t.Fatal(refusal)
		}
		for range 5 {
			var p ratelimit.Permit
			if try(l, s, call.Call{Capability: "weather"}, &p) == nil {
				t.Fatal("a second call of weather was admitted")
			}
			l.Release(0, &p)
		}
		if refusal := try(l, s, call.Call{Capability: "other"}, &other); refusal != nil {
			t.Errorf("the second of two calls: %v", refusal)
		}
		if try(l, s, call.Call{Capability: "other"}, &none) == nil {
			t.Error("a third call was admitted, of a limit of 2")
		}
	})
}

// TestALimitOfOneTool counts the calls of that tool of that capability.
func TestALimitOfOneTool(t *testing.T) {
	alone(t, func(t *testing.T, l *ratelimit.Limiter, _ *model) {
		s := settings(tenant.Bounds{}, tenant.Limit{Capability: "weather", Tool: "get",
			Bounds: tenant.Bounds{PerDay: 2}})
		for _, of := range []struct {
			capability, tool string
			want             int
		}{{"weather", "list", 5}, {"other", "get", 5}, {"weather", "", 5}, {"weather", "get", 2}} {
			if ok, _ := made(l, s, call.Call{Capability: of.capability, Tool: of.tool}, 5); ok != of.want {
				t.Errorf("%s %s: %d calls, want %d", of.capability, of.tool, ok, of.want)
			}
		}
	})
}

// TestAReplicaThatEnds returns what it has leased, so that the others can use it at once.
func TestAReplicaThatEnds(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		bounds     tenant.Bounds
		used, left int
	}{
		"calls":   {tenant.Bounds{PerDay: 640}, 3, 637},
		"permits": {tenant.Bounds{Concurrent: 10}, 10, 10},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			check.Bubble(t, func(t *testing.T) {
				m, s := newModel(), settings(test.bounds)
				a := ratelimit.New(ratelimit.Config{Store: m.replica("a")})
				b := ratelimit.New(ratelimit.Config{Store: m.replica("b")})
				stop := run(a)
				defer run(b)()
				running := begin(a, s, test.used)
				for _, p := range running {
					a.Release(0, p)
				}
				stop()
				if n := len(begin(b, s, 1000)); len(running) != test.used || n != test.left {
					t.Errorf("%d calls, and %d after that at another replica, want %d", len(running), n, test.left)
				}
			})
		})
	}
}

// TestAReplicaThatEndsReportsItsCalls: its last message does not overtake one that reports calls of its own share.
func TestAReplicaThatEndsReportsItsCalls(t *testing.T) {
	t.Parallel()
	check.Bubble(t, func(t *testing.T) {
		m, s := newModel(), settings(tenant.Bounds{PerDay: 640, Concurrent: 1000})
		a := ratelimit.New(ratelimit.Config{Store: m.replica("a")})
		stop := run(a)
		m.unavailable = true
		own := len(begin(a, s, 1000))
		sent, times := make(chan struct{}), 0
		m.mu.Lock()
		m.unavailable = false
		m.delay = func() time.Duration { // of the report alone
			if times++; times == 1 {
				close(sent)
				return 50 * time.Millisecond
			}
			return 0
		}
		m.mu.Unlock()
		<-sent
		stop()
		b := ratelimit.New(ratelimit.Config{Store: m.replica("b")})
		defer run(b)()
		if n, _ := made(b, s, call.Call{}, 1000); own == 0 || own+n != 640 {
			t.Errorf("%d calls without the store, and %d at another replica, want 640 together", own, n)
		}
	})
}

// TestABusyReplicaGivesWay: a replica whose calls never leave a permit free returns permits when another replica
// wants some.
func TestABusyReplicaGivesWay(t *testing.T) {
	t.Parallel()
	check.Bubble(t, func(t *testing.T) {
		m, s := newModel(), settings(tenant.Bounds{Concurrent: 10})
		ctx, cancel := context.WithCancel(t.Context())
		var callers sync.WaitGroup
		keepCalling := func(l *ratelimit.Limiter, callersOf int, running *int, most *int, mu *sync.Mutex) {
			for i := range callersOf {
				callers.Go(func() {
					pass(time.Duration(i) * time.Millisecond)
					for ctx.Err() == nil {
						var p ratelimit.Permit
						if try(l, s, call.Call{}, &p) != nil {
							pass(time.Millisecond)
							continue
						}
						mu.Lock()
						*running++
						*most = max(*most, *running)
						mu.Unlock()
						pass(20 * time.Millisecond)
						mu.Lock()
						*running--
						mu.Unlock()
						l.Release(0, &p)
					}
				})
			}
		}
		var mu sync.Mutex
		var running, most [2]int
		for i, name := range []string{"busy", "other"} {
			l := ratelimit.New(ratelimit.Config{Store: m.replica(name), Replicas: func() int { return 2 }})
			defer run(l)()
			keepCalling(l, 40, &running[i], &most[i], &mu)
			pass(2 * time.Second)
		}
		cancel()
		callers.Wait()
		if most[0] != 10 || most[1] < 4 {
			t.Errorf("%d calls at once at the busy replica, and %d at the other, want 10 and about 5", most[0], most[1])
		}
	})
}

// silent is a Store that answers no demand.
type silent struct{}

func (silent) Exchange(context.Context, ratelimit.Owner, []ratelimit.Demand) ([]ratelimit.Grant, error) {
	return nil, nil
}

// TestAnAnswerThatIsTooShort counts as none: the replica uses its own share.
func TestAnAnswerThatIsTooShort(t *testing.T) {
	t.Parallel()
	check.Bubble(t, func(t *testing.T) {
		l := ratelimit.New(ratelimit.Config{Store: silent{}})
		defer run(l)()
		done := make(chan int, 1)
		go func() {
			ok, _ := made(l, settings(tenant.Bounds{CallsPerSecond: 5}), call.Call{}, 5)
			done <- ok
		}()
		select {
		case ok := <-done:
			if ok != 1 { // a tenth of a share, and at least one, while the bucket is unknown
				t.Errorf("%d calls, want 1", ok)
			}
		case <-time.After(time.Minute):
			t.Fatal("a call waits")
		}
	})
}

// TestWaitingCallsAreBounded: a call is rejected if very many wait for the store.
func TestWaitingCallsAreBounded(t *testing.T) {
	t.Parallel()
	l := ratelimit.New(ratelimit.Config{Store: silent{}}) // which is not asked, as Run does not run
	s, resumed := settings(tenant.Bounds{Concurrent: 1}), 0
	for n := 0; ; n++ {
		var p ratelimit.Permit
		refusal, ok := l.Take(s, &call.Call{}, 0, &p)
		switch {
		case refusal != nil && refusal.Reason == "LIMITS_OVERLOADED" && n == ratelimit.MaxWaiting && resumed == 0:
			return
		case refusal != nil || ok || n > ratelimit.MaxWaiting:
			t.Fatalf("call %d: %v, %t", n, refusal, ok)
		}
		l.Wait(&p, func() { resumed++ })
	}
}

// TestValuesOfAllTenantsAreBounded: beyond a number of users of all tenants, further users of a tenant share one limit.
func TestValuesOfAllTenantsAreBounded(t *testing.T) {
	t.Parallel()
	l := ratelimit.New(ratelimit.Config{Store: silent{}})
	limits := tenant.Limits{Shadow: true, // so that no call waits
		Each: []tenant.Limit{{Per: "user", Bounds: tenant.Bounds{CallsPerSecond: 5}}}}
	apart := 0
	for n := range ratelimit.MaxScopes/ratelimit.MaxTenantScopes + 1 {
		s := &tenant.Settings{ID: string(rune('a' + n)), Limits: limits}
		for i := range ratelimit.MaxTenantScopes {
			var p ratelimit.Permit
			c := call.Call{User: string([]byte{byte(i), byte(i >> 8)})}
			if refusal, ok := l.Take(s, &c, 0, &p); refusal != nil || !ok {
				t.Fatal(refusal, ok)
			}
		}
		u, _ := l.UsageOf(t.Context(), s)
		apart += u.Limits[0].Apart
	}
	if apart != ratelimit.MaxScopes {
		t.Errorf("%d users have limits of their own, want %d", apart, ratelimit.MaxScopes)
	}
}

// TestRefund: a call that is refunded counts for no limit, and a call before all limits changes none.
func TestRefund(t *testing.T) {
	alone(t, func(t *testing.T, l *ratelimit.Limiter, _ *model) {
		s := settings(tenant.Bounds{PerDay: 3}, tenant.Limit{Capability: "weather", Bounds: tenant.Bounds{PerDay: 3}})
		weather := call.Call{Capability: "weather"}
		l.Refund(s, &weather)
		if ok, _ := made(l, s, weather, 9); ok != 3 {
			t.Fatalf("%d calls, want 3", ok)
		}
		l.Refund(s, &weather)
		pass(15 * time.Second)
		if ok, _ := made(l, s, weather, 9); ok != 1 {
			t.Errorf("%d calls after a refund, want 1", ok)
		}
	})
}
