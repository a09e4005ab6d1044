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

// TestNOfMAndSelfApprovalAtTwoReplicas: of ten people who approve at once at two replicas, exactly three count, and one
// transition happens. The user of the call is an eleventh, and never counts.
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
			t.Fatalf("%+v, %v, %v", got.Answers, err, count)
		}
		if count["pending"] != 2 || count["approved"] != 1 {
			t.Errorf("%v", count)
		}
		for _, answer := range got.Answers {
			if answer.By == "0" {
				t.Errorf("the user of the call counts: %+v", got.Answers)
			}
		}
	})
}

// TestWhoMayAnswer: users cannot approve their own calls, other people must be in a group, and a person counts once.
func TestWhoMayAnswer(t *testing.T) {
	onEveryRedis(t, func(t *testing.T, open func() *redisstore.Store) {
		k := service(t, open(), approvals.Options{})
		k.SetAnswerRules(anyCall(approvals.AnswerRule{Answers: 2, Groups: []string{"sec"},
			Reason: approvals.ReasonAlways}))
		a := ask(t, k, request("1"))
		for _, test := range []struct {
			who     approvals.Approver
			comment string
			want    string
		}{
			{person(a.User, "sec"), "ok", "SELF_APPROVAL"}, {person("eve"), "ok", "APPROVER_GROUP"},
			{approvals.Approver{}, "ok", "APPROVER_GROUP"}, {person("bob", "sec"), " ", "REASON_REQUIRED"},
			{person("bob", "sec"), "ok", ""}, {person("bob", "sec"), "ok", "ALREADY_ANSWERED"},
		} {
			_, err := k.Approve(t.Context(), a.Tenant, a.ID, approvals.Answer{Who: test.who, Comment: test.comment})
			if got := refusedFor(err); got != test.want {
				t.Errorf("%+v: %s, want %s", test.who, got, test.want)
			}
		}
		k.SetAnswerRules(anyCall(approvals.AnswerRule{Answers: 2}))
		if _, err := k.Approve(t.Context(), a.Tenant, a.ID,
			approvals.Answer{}); refusedFor(err) != "APPROVER_REQUIRED" {
			t.Errorf("an unknown approver: %v", err)
		}
		// The rules in force decide: one answer is enough now, which bob has given.
		k.SetAnswerRules(anyCall(approvals.AnswerRule{}))
		got, err := k.Approve(t.Context(), a.Tenant, a.ID, approvals.Answer{Who: person("bob")})
		if err != nil || got.State != approvals.Approved || len(got.Answers) != 1 {
			t.Errorf("%+v, %v", got, err)
		}
	})
}

// TestOneDenialDenies, whoever has approved.
func TestOneDenialDenies(t *testing.T) {
	onEveryRedis(t, func(t *testing.T, open func() *redisstore.Store) {
		k := service(t, open(), approvals.Options{})
		k.SetAnswerRules(anyCall(approvals.AnswerRule{Answers: 3}))
		a := ask(t, k, request("1"))
		if _, err := k.Approve(t.Context(), a.Tenant, a.ID, approvals.Answer{Who: person("bob")}); err != nil {
			t.Fatal(err)
		}
		got, err := k.Deny(t.Context(), a.Tenant, a.ID, approvals.Answer{Who: person("eve"), Comment: "no"})
		if err != nil || got.State != approvals.Denied || len(got.Answers) != 2 {
			t.Errorf("%+v, %v", got, err)
		}
	})
}

// TestTheNarrowestAnswerIsRemembered, for the shortest time.
func TestTheNarrowestAnswerIsRemembered(t *testing.T) {
	onEveryRedis(t, func(t *testing.T, open func() *redisstore.Store) {
		s := open()
		k := service(t, s, approvals.Options{Rules: s.Policies()})
		k.SetAnswerRules(anyCall(approvals.AnswerRule{Answers: 2, MaxValidity: time.Hour}))
		a := ask(t, k, request("1"))
		_, err := k.Approve(t.Context(), a.Tenant, a.ID,
			approvals.Answer{Who: person("bob"), Remember: approvals.Always, ValidFor: 2 * time.Hour})
		if refusedFor(err) != "APPROVAL_INVALID" {
			t.Errorf("longer than the rule permits: %v", err)
		}
		if _, err = k.Approve(t.Context(), a.Tenant, a.ID,
			approvals.Answer{Who: person("bob"), Remember: approvals.Always}); err != nil {
			t.Fatal(err)
		}
		got, err := k.Approve(t.Context(), a.Tenant, a.ID,
			approvals.Answer{Who: person("eve"), Remember: approvals.Always, ValidFor: time.Minute})
		if err != nil || got.Remember != approvals.Always || !got.ValidUntil().Equal(got.Answered.Add(time.Minute)) {
			t.Fatalf("%+v, %v", got, err)
		}
		rules, _, err := s.Policies().List(t.Context(), a.Tenant, "", 10)
		if err != nil || len(rules) != 1 || !rules[0].Expires.Equal(got.ValidUntil()) {
			t.Errorf("%+v, %v", rules, err)
		}
	})
}

// TestEscalationIsToldOnce by two replicas, also if nobody asks.
func TestEscalationIsToldOnce(t *testing.T) {
	onEveryRedis(t, func(t *testing.T, open func() *redisstore.Store) {
		one, two := watching(t, open(), approvals.Options{}), watching(t, open(), approvals.Options{})
		rule := approvals.AnswerRule{Groups: []string{"sec"}, EscalateAfter: time.Second,
			EscalateGroups: []string{"leads"}}
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
			t.Errorf("%v", kinds)
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
