package router_test

import (
	"reflect"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/capgate/capgate/internal/call"
	"github.com/capgate/capgate/internal/testkit/check"
	"github.com/capgate/capgate/router"
)

// The tenants of a fleet are served round-robin, and each in its order.
func TestLimitIsFairToTenants(t *testing.T) {
	t.Parallel()
	check.Bubble(t, func(t *testing.T) {
		concurrent := &concurrency{}
		r := newLimited(t, nil, concurrent, router.Limit{PerBackend: 1}, named(1)...)
		release := r.hold(router.PermitRequest{})
		var work sync.WaitGroup
		for _, tenant := range []string{"a", "a", "a", "a", "b", "b", "c"} {
			work.Go(func() {
				if refusal := r.call(router.PermitRequest{Tenant: tenant}, time.Millisecond); refusal != nil {
					t.Error(refusal)
				}
			})
			synctest.Wait()
		}
		release()
		work.Wait()
		if got, want := concurrent.order(), []string{"a", "b", "c", "a", "b", "a", "a"}; !reflect.DeepEqual(got, want) {
			t.Errorf("served %v, want %v", got, want)
		}
		r.end()
	})
}

// A call of a limited fleet with a free permit does not allocate.
func TestEnterAllocatesNothing(t *testing.T) {
	table := newTable(t, router.Config{Limits: router.NewLimits(router.LimitsConfig{}), Fleets: []router.FleetConfig{
		{Capability: "weather", Backends: named(3), Limit: router.Limit{PerBackend: 1}},
	}}, nil)
	router.New(table)
	f := table.Fleet("weather")
	allocs := testing.AllocsPerRun(100, func() {
		_, first := f.AcquirePermit(router.PermitRequest{Tenant: "a"}, nil)
		_, second := f.AcquirePermit(router.PermitRequest{Tenant: "a", Tried: first.Backend}, nil)
		first.Claim.Done(ok)
		second.Claim.Done(ok)
	})
	if allocs != 0 {
		t.Errorf("%v allocations", allocs)
	}
}

func TestLimitsQueue(t *testing.T) {
	t.Parallel()
	check.Bubble(t, func(t *testing.T) {
		r := newLimited(t, nil, &concurrency{},
			router.Limit{PerBackend: 1, Queue: router.Queue{Size: 2, Wait: 3 * time.Second}},
			named(1)...)
		release := r.hold(router.PermitRequest{})
		ends := make(chan router.PermitResult, 3)
		end := func(a router.PermitResult) { ends <- a }
		first := r.start(router.PermitRequest{Tenant: "a"}, end)
		began := time.Now()
		r.start(router.PermitRequest{Tenant: "a"}, end)
		full := r.call(router.PermitRequest{Tenant: "a"}, 0)
		if full == nil || full.Kind != call.ResourceExhausted || full.Reason != "CONCURRENCY_LIMIT" ||
			full.RetryAfter <= 0 || full.Metadata["capability"] != "weather" {
			t.Errorf("the queue is full, but %v", full)
		}
		first.Cancel() // its caller has left: there is room for another
		first.Cancel()
		last := r.start(router.PermitRequest{Tenant: "b"}, end)
		if a := <-ends; a.Refusal == nil || a.Refusal.Reason != "CONCURRENCY_LIMIT" || a.Refusal.RetryAfter <= 0 {
			t.Errorf("waited too long, but %+v", a)
		}
		if waited := time.Since(began); waited < 3*time.Second || waited > 3200*time.Millisecond {
			t.Errorf("waited %v", waited)
		}
		<-ends // of the other, at about the same time
		if s := r.fleet().Stats(); s.Waiting != 0 || s.Waits != 3 || s.LimitRejected != 3 || s.PermitsUsed != 1 {
			t.Errorf("%+v", s)
		}
		last.Cancel() // too late, and no harm
		release()
		if refusal := r.call(router.PermitRequest{}, 0); refusal != nil {
			t.Error(refusal)
		}
		r.end()
	})
}

// A full queue drops the last calls of the tenant with the most, until none has more than another.
func TestOneTenantDoesNotFillTheQueue(t *testing.T) {
	t.Parallel()
	check.Bubble(t, func(t *testing.T) {
		concurrent := &concurrency{}
		r := newLimited(t, nil, concurrent, router.Limit{PerBackend: 1, Queue: router.Queue{Size: 6}}, named(1)...)
		release := r.hold(router.PermitRequest{})
		var work sync.WaitGroup
		var mu sync.Mutex
		refused := map[string]int{}
		for _, tenant := range []string{"a", "a", "a", "a", "a", "a", "a", "b", "b", "c", "b", "b", "c", "c"} {
			work.Go(func() {
				if r.call(router.PermitRequest{Tenant: tenant}, time.Millisecond) != nil {
					mu.Lock()
					defer mu.Unlock()
					refused[tenant]++
				}
			})
			synctest.Wait()
		}
		release()
		work.Wait()
		if want := map[string]int{"a": 5, "b": 2, "c": 1}; !reflect.DeepEqual(refused, want) {
			t.Errorf("refused %v, want %v", refused, want)
		}
		r.end()
	})
}

// A permit for a caller that has left goes to the next one.
func TestLimitOfACallerThatLeft(t *testing.T) {
	t.Parallel()
	check.Bubble(t, func(t *testing.T) {
		r := newLimited(t, nil, &concurrency{}, router.Limit{PerBackend: 1}, named(1)...)
		release := r.hold(router.PermitRequest{})
		_, _ = r.fleet().AcquirePermit(router.PermitRequest{}, func() func(router.PermitResult) bool {
			return func(router.PermitResult) bool { return false }
		})
		next := make(chan router.PermitResult, 1)
		r.start(router.PermitRequest{}, func(a router.PermitResult) { next <- a })
		release()
		if a := <-next; a.Refusal != nil {
			t.Error(a.Refusal)
		}
		r.end()
	})
}

// A call bound to one backend waits for that one, without delaying others.
func TestLimitOfOneBackend(t *testing.T) {
	t.Parallel()
	check.Bubble(t, func(t *testing.T) {
		for _, shared := range []bool{false, true} {
			var slots router.PermitStore
			if shared {
				slots = &replica{board: newBoard(), name: "1"}
			}
			r := newLimited(t, slots, &concurrency{}, router.Limit{PerBackend: 1}, named(2)...)
			one := r.fleet().Backends[0]
			release := r.hold(router.PermitRequest{Backend: one})
			pinned := make(chan router.PermitResult, 1)
			r.start(router.PermitRequest{Backend: one}, func(a router.PermitResult) { pinned <- a })
			for range 5 {
				if refusal := r.call(router.PermitRequest{}, time.Millisecond); refusal != nil {
					t.Error(refusal)
				}
			}
			synctest.Wait()
			select {
			case a := <-pinned:
				t.Errorf("entered %+v", a)
			default:
			}
			release()
			if a := <-pinned; a.Backend != one {
				t.Errorf("entered %+v", a)
			}
			// A second attempt uses the other backend, and waits for it.
			if a := (<-chanOf(r, router.PermitRequest{Tried: one})); a.Backend != r.fleet().Backends[1] {
				t.Errorf("second try at %+v", a)
			}
			r.end()
		}
	})
}

// A configuration change applies to waiting calls, too.
func TestLimitChanges(t *testing.T) {
	t.Parallel()
	for name, change := range map[string]struct {
		limit    router.Limit
		backends []router.BackendConfig
	}{
		"more":          {router.Limit{PerBackend: 2}, named(1)},
		"no limit":      {router.Limit{}, named(1)},
		"a new backend": {router.Limit{PerBackend: 1}, named(2)},
		"another one":   {router.Limit{PerBackend: 1}, named(2)[1:]},
		"one without": {router.Limit{PerBackend: 1}, []router.BackendConfig{{Addr: "a0:1"},
			{Addr: "b:1", Limit: -1}}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			check.Bubble(t, func(t *testing.T) {
				board := newBoard()
				r := newLimited(t, &replica{board: board, name: "1"}, &concurrency{}, router.Limit{PerBackend: 1},
					named(1)...)
				release := r.hold(router.PermitRequest{})
				waiting := chanOf(r, router.PermitRequest{})
				r.router.Swap(newTable(t, r.config(change.limit, change.backends...), r.router.Table()))
				a := <-waiting
				if a.Refusal != nil {
					t.Fatal(a.Refusal)
				}
				a.Claim.Done(router.Outcome{})
				release()
				<-time.After(10 * time.Second)
				if s := r.fleet().Stats(); s.PermitsUsed != 0 || s.Waiting != 0 || sum(board.holders("a0:1")) != 0 {
					t.Errorf("%+v, held %v", s, board.holders("a0:1"))
				}
				r.end()
			})
		})
	}
}

func TestLimitNeedsLimits(t *testing.T) {
	t.Parallel()
	_, err := router.NewTable(router.Config{
		Fleets: []router.FleetConfig{{Capability: "a", Backends: named(1), Limit: router.Limit{PerBackend: 1}}},
	}, nil)
	if err == nil {
		t.Error("a table with a limit that nobody keeps")
	}
}
