package redisstore_test

import (
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/capgate/capgate/internal/redisstore"
	"github.com/capgate/capgate/internal/testkit/check"
	"github.com/capgate/capgate/policy/approvals"
)

// replicas are three services with connections of their own.
func replicas(t *testing.T, open func() *redisstore.Store, o approvals.Options) []*approvals.Service {
	t.Helper()
	all := make([]*approvals.Service, 3)
	for i := range all {
		all[i] = service(t, open(), o)
	}
	return all
}

// atOnce runs n functions that start together.
func atOnce(t *testing.T, n int, f func(i int)) {
	t.Helper()
	var all sync.WaitGroup
	begin := make(chan struct{})
	for i := range n {
		all.Go(func() {
			<-begin
			f(i)
		})
	}
	close(begin)
	check.Ended(t, &all, "the end of what began at once")
}

// TestOneOfManyUsesIt: of a hundred calls at three replicas, one redeems an approval, repeatedly.
func TestOneOfManyUsesIt(t *testing.T) {
	onEveryRedis(t, func(t *testing.T, open func() *redisstore.Store) {
		all := replicas(t, open, approvals.Options{})
		for round := range 4 {
			r := request(fmt.Sprint(round))
			a := ask(t, all[0], r)
			approve(t, all[1], a, approvals.Answer{})
			var won, lost atomic.Int64
			var winner approvals.Redemption
			atOnce(t, 100, func(i int) {
				use, refusal := all[i%3].Redeem(t.Context(), a.ID, r)
				switch {
				case refusal == nil:
					winner = use
					won.Add(1)
				case refusal.Reason == "APPROVAL_USED":
					lost.Add(1)
				default:
					t.Error(refusal)
				}
			})
			if won.Load() != 1 || lost.Load() != 99 {
				t.Fatalf("round %d: %d used it, %d got APPROVAL_USED", round, won.Load(), lost.Load())
			}
			// It stays used if the call's replica dies.
			if got, err := all[2].Get(t.Context(), a.Tenant, a.ID); err != nil || got.State != approvals.Used {
				t.Errorf("got %+v, %v", got, err)
			}
			if err := all[0].Release(t.Context(), winner); err != nil {
				t.Error(err)
			}
			won.Store(0)
			atOnce(t, 20, func(i int) {
				if _, refusal := all[i%3].Redeem(t.Context(), a.ID, r); refusal == nil {
					won.Add(1)
				}
			})
			if won.Load() != 1 {
				t.Errorf("round %d: %d used it when it was given back", round, won.Load())
			}
		}
	})
}

// TestOneOfManyAsks: the same call at three replicas gets one approval.
func TestOneOfManyAsks(t *testing.T) {
	onEveryRedis(t, func(t *testing.T, open func() *redisstore.Store) {
		all := replicas(t, open, approvals.Options{})
		ids := make([]string, 60)
		atOnce(t, len(ids), func(i int) {
			if a, _, refusal := all[i%3].Create(t.Context(), request("{}")); refusal == nil {
				ids[i] = a.ID
			}
		})
		for _, id := range ids {
			if id == "" || id != ids[0] {
				t.Fatalf("got %q; id %+v", ids, id)
			}
		}
		if n := all[0].Stats().Asked + all[1].Stats().Asked + all[2].Stats().Asked; n != 1 {
			t.Errorf("%d were made", n)
		}
	})
}

// TestAnswersRace: of a concurrent approval and denial one applies, and all replicas see the same one.
func TestAnswersRace(t *testing.T) {
	onEveryRedis(t, func(t *testing.T, open func() *redisstore.Store) {
		all := replicas(t, open, approvals.Options{})
		for round := range 30 {
			r := request(fmt.Sprint(round))
			a := ask(t, all[0], r)
			var approved, denied, used atomic.Bool
			atOnce(t, 3, func(i int) {
				switch i {
				case 0:
					_, err := all[0].Approve(t.Context(), a.Tenant, a.ID, approvals.Answer{})
					approved.Store(err == nil)
				case 1:
					_, err := all[1].Deny(t.Context(), a.Tenant, a.ID, approvals.Answer{})
					denied.Store(err == nil)
				case 2:
					_, refusal := all[2].Redeem(t.Context(), a.ID, r)
					used.Store(refusal == nil)
				}
			})
			got, err := all[2].Get(t.Context(), a.Tenant, a.ID)
			want := approvals.Denied
			if approved.Load() {
				want = approvals.Approved
			}
			if used.Load() {
				want = approvals.Used
			}
			if approved.Load() == denied.Load() || err != nil || got.State != want || used.Load() && denied.Load() {
				t.Fatalf("round %d: approved %v, denied %v, used %v, %+v, %v", round, approved.Load(), denied.Load(),
					used.Load(), got, err)
			}
		}
	})
}

// TestAnswersRaceWithTheEnd: an approval that is answered before it expires is approved and usable, also later; one
// that is answered afterwards is expired and not usable. One that is answered as it expires is one of the two.
func TestAnswersRaceWithTheEnd(t *testing.T) {
	onEveryRedis(t, func(t *testing.T, open func() *redisstore.Store) {
		s := open()
		all := replicas(t, open, approvals.Options{})
		asked := 0
		next := func(ttl time.Duration) (*approvals.Request, approvals.Approval) {
			asked++
			r := request(fmt.Sprint(asked))
			return r, ask(t, service(t, s, approvals.Options{TTL: ttl}), r)
		}
		const ttl = 20 * time.Millisecond
		for round := range 60 {
			r, a := next(ttl)
			<-time.After(time.Until(a.Expires) + time.Duration(round%7-3)*time.Millisecond)
			var answered, saw atomic.Bool
			atOnce(t, 2, func(i int) {
				if i == 0 {
					_, err := all[0].Approve(t.Context(), a.Tenant, a.ID, approvals.Answer{})
					answered.Store(err == nil)
				} else if got, err := all[1].Get(t.Context(), a.Tenant, a.ID); err == nil {
					saw.Store(got.State == approvals.Expired)
				}
			})
			_, refusal := all[2].Redeem(t.Context(), a.ID, r)
			if answered.Load() {
				wantRefusal(t, "approved", refusal, "")
				if saw.Load() {
					t.Errorf("round %d: both approved and expired", round)
				}
			} else {
				wantRefusal(t, "expired", refusal, "APPROVAL_EXPIRED")
			}
		}
		for round := range 5 {
			r, a := next(ttl)
			awaitState(t, all[1], a, approvals.Expired)
			if got, err := all[0].Approve(t.Context(), a.Tenant, a.ID, approvals.Answer{}); err == nil {
				t.Errorf("round %d: answered after its end: %+v", round, got)
			}
			_, refusal := all[2].Redeem(t.Context(), a.ID, r)
			wantRefusal(t, "after its end", refusal, "APPROVAL_EXPIRED")
		}
		for round := range 5 {
			r, a := answeredInTime(t, all[0], ttl, next)
			<-time.After(time.Until(a.Expires) + ttl)
			awaitState(t, all[1], a, approvals.Approved)
			_, refusal := all[2].Redeem(t.Context(), a.ID, r)
			wantRefusal(t, fmt.Sprintf("round %d, answered before its end", round), refusal, "")
		}
	})
}

// awaitState waits until a replica sees an approval in a state.
func awaitState(t *testing.T, at *approvals.Service, a approvals.Approval, state approvals.State) {
	t.Helper()
	check.Until(t, fmt.Sprintf("an approval to be %v", state), func() (bool, string) {
		got, err := at.Get(t.Context(), a.Tenant, a.ID)
		return err == nil && got.State == state, fmt.Sprint(got.State, err)
	})
}

// answeredInTime creates an approval and approves it before it expires. On a machine that is too busy for that
// it doubles the time. It returns the approval as created.
func answeredInTime(t *testing.T, at *approvals.Service, ttl time.Duration,
	next func(time.Duration) (*approvals.Request, approvals.Approval)) (*approvals.Request, approvals.Approval) {
	t.Helper()
	for ; ttl < patience/8; ttl *= 2 {
		r, a := next(ttl)
		_, err := at.Approve(t.Context(), a.Tenant, a.ID, approvals.Answer{})
		if err == nil {
			return r, a
		}
		awaitState(t, at, a, approvals.Expired) // no other reason is accepted
	}
	t.Fatal("no answer in time")
	return nil, approvals.Approval{}
}

// TestReleaseRacesWithTheEnd: an approval that is released as it expires runs no call.
func TestReleaseRacesWithTheEnd(t *testing.T) {
	onEveryRedis(t, func(t *testing.T, open func() *redisstore.Store) {
		s := open()
		ttl := 20 * time.Millisecond
		short := service(t, s, approvals.Options{TTL: ttl})
		all := replicas(t, open, approvals.Options{})
		for round := 0; round < 40; {
			r := request(fmt.Sprint(round))
			a := approve(t, short, ask(t, all[0], r), approvals.Answer{})
			use, refusal := all[0].Redeem(t.Context(), a.ID, r)
			if refusal != nil {
				if refusal.Reason != "APPROVAL_EXPIRED" {
					t.Fatal(refusal)
				}
				if ttl *= 2; ttl >= patience/8 { // of a busy machine
					t.Fatalf("not redeemed in %v", ttl/2)
				}
				short = service(t, s, approvals.Options{TTL: ttl})
				continue
			}
			round++
			end := time.NewTimer(time.Until(a.Expires) + time.Duration(round%7-3)*time.Millisecond)
			<-end.C
			var again atomic.Bool
			atOnce(t, 2, func(i int) {
				if i == 0 {
					if err := all[0].Release(t.Context(), use); err != nil {
						t.Error(err)
					}
				} else {
					_, refusal := all[1].Redeem(t.Context(), a.ID, r)
					again.Store(refusal == nil)
				}
			})
			check.Until(t, "it to be over", func() (bool, string) {
				got, err := all[2].Get(t.Context(), a.Tenant, a.ID)
				return err == nil && (got.State == approvals.Expired || got.State == approvals.Used && again.Load()),
					fmt.Sprint(got, err)
			})

			if _, refusal := all[2].Redeem(t.Context(), a.ID, r); refusal == nil {
				t.Fatalf("round %d: used when it was over", round)
			}
			if err := all[0].Release(t.Context(), use); again.Load() && err == nil {
				t.Errorf("round %d: given back when another has it", round)
			}
		}
	})
}
