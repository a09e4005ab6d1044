package redisstore_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/capgate/capgate/internal/call"
	"github.com/capgate/capgate/internal/redisstore"
	"github.com/capgate/capgate/internal/testkit/check"
	"github.com/capgate/capgate/policy/approvals"
)

func person(name string, groups ...string) approvals.Approver {
	return approvals.Approver{User: name, Groups: groups, Key: "key k"}
}

func anyCall(r approvals.AnswerRule) []approvals.AnswerRule {
	r.Tenant, r.Capability, r.Tool = "*", "*", "*"
	return []approvals.AnswerRule{r}
}

// TestNOfMAndSelfApprovalAtTwoReplicas: of ten people who approve concurrently at two replicas, exactly three
// count, and there is one transition. The user of the call is an eleventh and never counts.
func TestNOfMAndSelfApprovalAtTwoReplicas(t *testing.T) {
	onEveryRedis(t, func(t *testing.T, open func() *redisstore.Store) {
		replicas := []*approvals.Service{service(t, open(), approvals.Options{}),
			service(t, open(), approvals.Options{})}
		for _, k := range replicas {
			k.SetAnswerRules(anyCall(approvals.AnswerRule{Answers: 3}))
		}
		a := ask(t, replicas[0], request("1"))
		var all sync.WaitGroup
		people := []approvals.Approver{person(a.User)}
		for i := range 10 {
			people = append(people, person(fmt.Sprint("p", i)))
		}
		results := make(chan string, 2*len(people))
		for i := range 2 * len(people) { // each person at both
			all.Go(func() {
				got, err := replicas[i%2].Approve(t.Context(), a.Tenant, a.ID,
					approvals.Answer{By: fmt.Sprint(i / 2), Who: people[i/2]})
				if err != nil {
					results <- refusedFor(err)
				} else {
					results <- got.State.String()
				}
			})
		}
		check.Ended(t, &all, "the end of the approvals")
		close(results)
		count := map[string]int{}
		for r := range results {
			count[r]++
		}
		got, err := replicas[1].Get(t.Context(), a.Tenant, a.ID)
		if err != nil || got.State != approvals.Approved || len(got.Answers) != 3 {
			t.Fatalf("got %+v, %v, %v", got.Answers, err, count)
		}
		if count["pending"] != 2 || count["approved"] != 1 {
			t.Errorf("got %v", count)
		}
		for _, answer := range got.Answers {
			if answer.By == "0" {
				t.Errorf("the user of the call counts: %+v", got.Answers)
			}
		}
	})
}

// TestEscalationIsReportedOnce: two replicas together report an escalation once, also without a request.
func TestEscalationIsReportedOnce(t *testing.T) {
	onEveryRedis(t, func(t *testing.T, open func() *redisstore.Store) {
		one, two := watching(t, open(), approvals.Options{}), watching(t, open(), approvals.Options{})
		rule := approvals.AnswerRule{Groups: []string{"sec"},
			Escalate: approvals.Escalation{After: time.Second, Groups: []string{"leads"}}}
		tenants := func(context.Context, string, int) ([]string, string, error) {
			return []string{request("1").Tenant}, "", nil
		}
		for _, k := range []*approvals.Service{one, two} {
			k.SetAnswerRules(anyCall(rule))
			runEscalations(t, approvals.NewEscalations(k, tenants))
		}
		a := ask(t, one, request("1"))
		if _, err := one.Approve(t.Context(), a.Tenant, a.ID,
			approvals.Answer{Who: person("bob", "leads")}); refusedFor(err) != "APPROVER_GROUP" {
			t.Errorf("before: %v", err)
		}
		var kinds []approvals.Kind
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		_ = two.Events(ctx, a.Tenant, "0", func(e approvals.Event) error {
			if kinds = append(kinds, e.Kind); e.Kind == approvals.EventEscalated {
				if _, err := two.Approve(t.Context(), a.Tenant, a.ID,
					approvals.Answer{Who: person("bob", "leads")}); err != nil {
					t.Error(err)
				}
			}
			if e.Kind == approvals.EventApproved {
				cancel()
			}
			return nil
		})
		want := []approvals.Kind{approvals.EventsStart, approvals.EventCreated, approvals.EventEscalated,
			approvals.EventApproved}
		if !slices.Equal(kinds, want) {
			t.Errorf("got %v", kinds)
		}
	})
}

func runEscalations(t *testing.T, e *approvals.Escalations) {
	t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	var running sync.WaitGroup
	running.Go(func() { e.Run(ctx) })
	t.Cleanup(func() { cancel(); check.Ended(t, &running, "the background work to end") })
}

func refusedFor(err error) string {
	var r *call.Refusal
	if errors.As(err, &r) {
		return r.Reason
	}
	return ""
}
