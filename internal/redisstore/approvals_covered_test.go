package redisstore_test

import (
	"fmt"
	"sync"
	"testing"

	"github.com/capgate/capgate/internal/redisstore"
	"github.com/capgate/capgate/internal/testkit/check"
	"github.com/capgate/capgate/policy/approvals"
)

// TestAnAnswerCoversWhatWaits: an answer for a session answers the pending approvals of the same tool, user,
// agent and session, also at another replica, whose waiters it releases. Others stay pending.
func TestAnAnswerCoversWhatWaits(t *testing.T) {
	onEveryRedis(t, func(t *testing.T, open func() *redisstore.Store) {
		for _, s := range []approvals.State{approvals.Approved, approvals.Denied} {
			one, two := watching(t, open(), approvals.Options{}), watching(t, open(), approvals.Options{})
			session := "of " + s.String()
			of := func(change func(*approvals.Request)) *approvals.Request {
				r := request("{}")
				if r.Session = session; change != nil {
					change(r)
				}
				return r
			}
			var covered []approvals.Approval
			released := make(chan approvals.State, 3)
			var waiting sync.WaitGroup
			for i := range 3 {
				a := ask(t, one, of(func(r *approvals.Request) { r.Args = fmt.Appendf(nil, `[%d]`, i) }))
				covered = append(covered, a)
				if i > 0 {
					waiting.Go(func() {
						got, _ := two.Wait(t.Context(), a.Tenant, a.ID)
						released <- got.State
					})
				}
			}
			var others []approvals.Approval
			for _, change := range []func(*approvals.Request){
				func(r *approvals.Request) { r.User = "bob" }, func(r *approvals.Request) { r.Agent = "bob" },
				func(r *approvals.Request) { r.Tool = "x" }, func(r *approvals.Request) { r.Capability = "x" },
				func(r *approvals.Request) { r.Schema[0]++ }, func(r *approvals.Request) { r.Session += "2" },
				func(r *approvals.Request) { r.Session = "" }, func(r *approvals.Request) { r.Level = "engine" },
				func(r *approvals.Request) { r.Level = "shield" }, func(r *approvals.Request) { r.Tenant = "other" },
			} {
				others = append(others, ask(t, one, of(change)))
			}
			give := one.Approve
			if s == approvals.Denied {
				give = one.Deny
			}
			a := covered[0]
			got, err := give(t.Context(), a.Tenant, a.ID, approvals.Answer{By: "eve", Remember: approvals.ThisSession})
			if err != nil || got.Covered == nil || len(got.Covered.Approvals) != 2 || got.Covered.Rest {
				t.Fatalf("%v: %v, %+v", s, err, got.Covered)
			}
			for range 2 {
				if state := check.Received(t, released, "a waiter"); state != s {
					t.Errorf("a waiter has %v", state)
				}
			}
			waiting.Wait()
			for i, a := range covered {
				if now, _ := two.Get(t.Context(), a.Tenant, a.ID); now.State != s || now.By != "eve" {
					t.Errorf("%v: covered %d is %v by %q", s, i, now.State, now.By)
				}
			}
			for i, a := range others {
				if now, _ := two.Get(t.Context(), a.Tenant, a.ID); now.State != approvals.Pending {
					t.Errorf("%v: other %d is %v", s, i, now.State)
				}
			}
		}
	})
}

// TestAnAnswerCoversOnce: two answers at two replicas together answer each pending approval once.
func TestAnAnswerCoversOnce(t *testing.T) {
	onEveryRedis(t, func(t *testing.T, open func() *redisstore.Store) {
		one, two := watching(t, open(), approvals.Options{}), watching(t, open(), approvals.Options{})
		const n = 20
		var all []approvals.Approval
		for i := range n {
			all = append(all, ask(t, one, request(fmt.Sprintf(`[%d]`, i))))
		}
		answered := make(chan int, 2)
		for i, k := range []*approvals.Service{one, two} {
			go func() {
				a, err := k.Approve(t.Context(), all[i].Tenant, all[i].ID,
					approvals.Answer{Remember: approvals.ThisSession})
				if err != nil { // the other answer covered it
					answered <- 0
					return
				}
				answered <- 1 + len(a.Covered.Approvals)
			}()
		}
		if sum := check.Received(t, answered, "an answer") + check.Received(t, answered, "an answer"); sum != n {
			t.Errorf("%d approvals were answered %d times", n, sum)
		}
		for _, a := range all {
			if now, _ := two.Get(t.Context(), a.Tenant, a.ID); now.State != approvals.Approved {
				t.Errorf("one is %v", now.State)
			}
		}
	})
}

// TestAnAnswerOfSeveralCovers: with two approvers, the last answer for the session answers the approvals that have
// waited since the first call. Those that one of the approvers could not approve stay pending.
func TestAnAnswerOfSeveralCovers(t *testing.T) {
	onEveryRedis(t, func(t *testing.T, open func() *redisstore.Store) {
		k := watching(t, open(), approvals.Options{})
		k.SetAnswerRules(anyCall(approvals.AnswerRule{Answers: 2}))
		first, later := ask(t, k, request("1")), ask(t, k, request("2"))
		half := ask(t, k, request("3"))
		session := approvals.Answer{Remember: approvals.ThisSession, Who: person("eve")}
		for _, id := range []string{half.ID, first.ID} {
			if got, err := k.Approve(t.Context(), first.Tenant, id, session); err != nil || got.Covered != nil {
				t.Fatalf("got %v, %+v", err, got.Covered)
			}
		}
		session.Who = person("dan")
		got, err := k.Approve(t.Context(), first.Tenant, first.ID, session)
		if err != nil || got.Covered == nil || len(got.Covered.Approvals) != 1 ||
			got.Covered.Approvals[0].ID != later.ID {
			t.Fatalf("got %v, %+v", err, got.Covered)
		}
		if now, _ := k.Get(t.Context(), half.Tenant, half.ID); now.State != approvals.Pending {
			t.Errorf("an approval with an answer of its own is %v", now.State)
		}
	})
}
