package router_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/capgate/capgate/internal/call"
	"github.com/capgate/capgate/internal/testkit/check"
	"github.com/capgate/capgate/router"
)

// limited is one replica: a router of one limited fleet, with running Limits.
type limited struct {
	t           *testing.T
	router      *router.Router
	limits      *router.Limits
	concurrency *concurrency
	stop        context.CancelFunc
	ended       sync.WaitGroup
}

// newLimited starts a replica in a synctest bubble. slots may be nil.
func newLimited(t *testing.T, slots router.PermitStore, c *concurrency, limit router.Limit,
	backends ...router.BackendConfig) *limited {
	t.Helper()
	return newLimitedOf(t, func() int { return 3 }, slots, c, limit, backends...)
}

// newLimitedOf starts one of several replicas.
func newLimitedOf(t *testing.T, replicas func() int, slots router.PermitStore, c *concurrency, limit router.Limit,
	backends ...router.BackendConfig) *limited {
	t.Helper()
	r := &limited{t: t, limits: router.NewLimits(router.LimitsConfig{Store: slots, Replicas: replicas}), concurrency: c}
	r.router = router.New(newTable(t, r.config(limit, backends...), nil))
	ctx, stop := context.WithCancel(t.Context())
	r.stop = stop
	r.ended.Go(func() { r.limits.Run(ctx) })
	return r
}

func (r *limited) config(limit router.Limit, backends ...router.BackendConfig) router.Config {
	return router.Config{
		Limits: r.limits, Fleets: []router.FleetConfig{{Capability: "weather", Backends: backends, Limit: limit}},
	}
}

func (r *limited) fleet() *router.Fleet { return r.router.Table().Fleet("weather") }

func (r *limited) end() {
	r.stop()
	r.ended.Wait()
}

// start starts a call; done gets the result of its admission.
func (r *limited) start(e router.PermitRequest, done func(router.PermitResult)) *router.Waiter {
	w, a := r.fleet().AcquirePermit(e, func() func(router.PermitResult) bool {
		return func(a router.PermitResult) bool { done(a); return true }
	})
	if w == nil {
		done(a)
	}
	return w
}

// call makes a call of that duration, and returns its refusal.
func (r *limited) call(e router.PermitRequest, lasts time.Duration) *call.Refusal {
	entered := make(chan router.PermitResult, 1)
	r.start(e, func(a router.PermitResult) { entered <- a })
	a := <-entered
	if a.Refusal != nil {
		return a.Refusal
	}
	r.concurrency.enter(a.Backend.Addr, e.Tenant)
	<-time.After(lasts)
	r.concurrency.leave(a.Backend.Addr)
	a.Claim.Done(router.Outcome{Class: router.Succeeded})
	return nil
}

// hold makes a call that lasts until release.
func (r *limited) hold(e router.PermitRequest) (release func()) {
	entered := make(chan router.PermitResult, 1)
	r.start(e, func(a router.PermitResult) { entered <- a })
	a := <-entered
	if a.Refusal != nil {
		r.t.Fatal(a.Refusal)
	}
	return func() { a.Claim.Done(router.Outcome{Class: router.Succeeded}) }
}

// Three busy replicas never exceed the limit together, all calls succeed, and each replica and each backend gets its
// share.
func TestLimitOfThreeReplicas(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		limit, backends int
		deaf            bool
	}{{1, 1, false}, {1, 1, true}, {1, 3, false}, {2, 1, false}, {5, 2, true}, {40, 2, false}} {
		t.Run(fmt.Sprintf("%+v", test), func(t *testing.T) {
			t.Parallel()
			check.Bubble(t, func(t *testing.T) {
				const calls = 120
				board, concurrent := newBoard(), &concurrency{}
				board.deaf = test.deaf
				var work sync.WaitGroup
				var replicas []*limited
				for i := range 3 {
					r := newLimited(t, &replica{board: board, name: fmt.Sprint(i)}, concurrent,
						router.Limit{PerBackend: test.limit, Queue: router.Queue{Size: calls, Wait: time.Hour}},
						named(test.backends)...)
					replicas = append(replicas, r)
					for range calls {
						work.Go(func() {
							<-time.After(rand.N(time.Second))
							if refusal := r.call(router.PermitRequest{Tenant: fmt.Sprint(rand.N(3)), Tried: nil},
								rand.N(50*time.Millisecond)); refusal != nil {
								t.Error(refusal)
							}
						})
					}
				}
				began := time.Now()
				work.Wait()
				// 9 s of work, and for each call a round trip to the store, or a poll.
				if took := time.Since(began); took > 60*time.Second {
					t.Errorf("%d calls took %v", 3*calls, took)
				}
				if most := concurrent.peak(); most > test.limit {
					t.Errorf("%d calls at once at a backend, limit %d", most, test.limit)
				}
				for i, r := range replicas {
					if s := r.fleet().Stats(); s.PermitsUsed != 0 || s.Waiting != 0 || s.LimitRejected != 0 {
						t.Errorf("replica %d: %+v", i, s)
					}
				}
				<-time.After(10 * time.Second)
				if held := board.holders("a0:1"); sum(held) != 0 {
					t.Errorf("nobody calls, but %v are held", held)
				}
				before, _ := board.traffic()
				<-time.After(time.Minute)
				if after, _ := board.traffic(); after != before {
					t.Errorf("%d exchanges while nobody calls", after-before)
				}
				for _, r := range replicas {
					r.end()
				}
			})
		})
	}
}

// TestLimitIsFairToReplicas: replicas with constant calls do not starve one with rare calls, also if there are fewer
// permits than replicas.
func TestLimitIsFairToReplicas(t *testing.T) {
	t.Parallel()
	for _, limit := range []int{1, 2, 5} {
		check.Bubble(t, func(t *testing.T) {
			board, concurrent := newBoard(), &concurrency{}
			var all []*limited
			for _, name := range []string{"busy", "as busy", "other"} {
				all = append(all, newLimited(t, &replica{board: board, name: name}, concurrent,
					router.Limit{PerBackend: limit}, named(1)...))
			}
			ctx, stop := context.WithCancel(t.Context())
			var work sync.WaitGroup
			for _, busy := range all[:2] {
				for range 20 {
					work.Go(func() {
						for ctx.Err() == nil {
							_ = busy.call(router.PermitRequest{Tenant: "busy"}, 20*time.Millisecond)
						}
					})
				}
			}
			<-time.After(time.Second)
			for range 20 {
				began := time.Now()
				if refusal := all[2].call(router.PermitRequest{Tenant: "other"}, time.Millisecond); refusal != nil {
					t.Error(refusal)
				}
				if waited := time.Since(began); waited > 150*time.Millisecond {
					t.Errorf("limit %d: waited %v while each permit is free again after 20 ms", limit, waited)
				}
			}
			stop()
			work.Wait()
			if most := concurrent.peak(); most > limit {
				t.Errorf("%d calls at once, limit %d", most, limit)
			}
			for _, r := range all {
				r.end()
			}
		})
	}
}

func chanOf(r *limited, e router.PermitRequest) <-chan router.PermitResult {
	entered := make(chan router.PermitResult, 1)
	r.start(e, func(a router.PermitResult) { entered <- a })
	return entered
}

// Replicas with more calls than permits share them evenly, without moving them back and forth.
func TestLimitUnderContention(t *testing.T) {
	t.Parallel()
	check.Bubble(t, func(t *testing.T) {
		board, concurrent := newBoard(), &concurrency{}
		ctx, stop := context.WithTimeout(t.Context(), 10*time.Second)
		defer stop()
		var work sync.WaitGroup
		var replicas []*limited
		calls := make([]atomic.Int64, 3)
		for i := range calls {
			r := newLimited(t, &replica{board: board, name: fmt.Sprint(i)}, concurrent, router.Limit{PerBackend: 6},
				named(1)...)
			replicas = append(replicas, r)
			for range 20 {
				work.Go(func() {
					for ctx.Err() == nil {
						if refusal := r.call(router.PermitRequest{}, 10*time.Millisecond); refusal != nil {
							t.Error(refusal)
						}
						calls[i].Add(1)
					}
				})
			}
		}
		work.Wait()
		for i := range calls { // 6 places for 10 s, with calls of 10 ms
			if n := calls[i].Load(); n < 1800 {
				t.Errorf("replica %d had %d calls of 6000", i, n)
			}
		}
		if most := concurrent.peak(); most > 6 {
			t.Errorf("%d calls at once", most)
		}
		if exchanges, _ := board.traffic(); exchanges > 1000 { // each polls every 50 ms
			t.Errorf("%d exchanges", exchanges)
		}
		for _, r := range replicas {
			r.end()
		}
	})
}
