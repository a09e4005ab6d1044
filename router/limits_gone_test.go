package router_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/capgate/capgate/internal/testkit/check"
	"github.com/capgate/capgate/router"
)

// The calls of a removed fleet may finish, within the limit. Then the fleet is removed here and from the store.
func TestLimitOfAFleetThatGoes(t *testing.T) {
	t.Parallel()
	check.Bubble(t, func(t *testing.T) {
		board, concurrent := newBoard(), &concurrency{}
		r := newLimited(t, &replica{board: board, name: "1"}, concurrent,
			router.Limit{PerBackend: 1, Queue: router.Queue{Wait: time.Hour}},
			named(1)...)
		defer r.end()
		release := r.hold(router.PermitRequest{})
		waiting := chanOf(r, router.PermitRequest{})
		r.router.Swap(newTable(t, router.Config{Limits: r.limits}, r.router.Table()))
		<-time.After(2 * time.Minute)
		if len(waiting) > 0 || r.limits.Kept() != 1 {
			t.Errorf("%d calls more than may be, %d limiters", len(waiting), r.limits.Kept())
		}
		release()
		a := <-waiting
		if a.Refusal != nil {
			t.Fatal(a.Refusal)
		}
		<-time.After(2 * time.Minute)
		if r.limits.Kept() != 1 {
			t.Error("forgotten while there is a call")
		}
		a.Claim.Done(router.Outcome{})
		<-time.After(10 * time.Second)
		if r.limits.Kept() != 0 || sum(board.holders("a0:1")) != 0 {
			t.Errorf("%d limiters, held %v", r.limits.Kept(), board.holders("a0:1"))
		}
	})
}

// Capabilities that come and go leave no state, one that returns soon finds its calls counted, and the remaining ones
// keep their state.
func TestLimitsAreForgotten(t *testing.T) {
	t.Parallel()
	for name, slots := range map[string]func() router.PermitStore{
		"a store": func() router.PermitStore { return &replica{board: newBoard(), name: "1"} },
		"alone":   func() router.PermitStore { return nil },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			check.Bubble(t, func(t *testing.T) {
				limit := router.Limit{PerBackend: 1}
				r := newLimited(t, slots(), &concurrency{}, limit, named(1)...)
				defer r.end()
				before := r.config(limit, named(1)...)
				for i := range 150 {
					passing := router.FleetConfig{Capability: fmt.Sprintf("c%d", i), Backends: named(2), Limit: limit}
					next := before
					next.Fleets = append([]router.FleetConfig{passing}, before.Fleets...)
					r.router.Swap(newTable(t, next, r.router.Table()))
					<-time.After(time.Second)
				}
				if n := r.limits.Kept(); n > 70 {
					t.Errorf("%d limiters, a minute's are 60", n)
				}
				release := r.hold(router.PermitRequest{})
				r.router.Swap(newTable(t, router.Config{Limits: r.limits}, r.router.Table()))
				<-time.After(90 * time.Second)
				r.router.Swap(newTable(t, before, r.router.Table()))
				<-time.After(90 * time.Second)
				waiting := chanOf(r, router.PermitRequest{})
				<-time.After(time.Second)
				if len(waiting) > 0 || r.limits.Kept() != 1 {
					t.Errorf("%d calls too many; %d limiters for one fleet", len(waiting), r.limits.Kept())
				}
				release()
				if a := <-waiting; a.Refusal != nil {
					t.Error(a.Refusal)
				} else {
					a.Claim.Done(router.Outcome{})
				}
			})
		})
	}
}
