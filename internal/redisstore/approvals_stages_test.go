package redisstore_test

import (
	"context"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/capgate/capgate/internal/redisstore"
	"github.com/capgate/capgate/internal/testkit/check"
	"github.com/capgate/capgate/internal/testkit/redistest"
	"github.com/capgate/capgate/policy/approvals"
)

// asOldReplica changes an approval to the form of an older version's replica, without the fields and sets of
// this one.
func asOldReplica(t *testing.T, st *redisstore.ApprovalStore, a *approvals.Approval, more ...any) {
	t.Helper()
	record := st.RecordKey(a.Tenant, a.ID)
	sets, err := st.Keys(t.Context(), "*")
	check.Must(t, err)
	err = st.Do(t.Context(), func(ctx context.Context, r redis.Cmdable) error {
		if err := r.HDel(ctx, record, "value").Err(); err != nil {
			return err
		}
		for _, key := range sets {
			if kind, err := r.Type(ctx, key).Result(); err != nil || kind != "zset" || key == st.IndexKey(a.Tenant) ||
				key == st.OpenKey(a.Tenant) {
				continue
			}
			if err := r.ZRem(ctx, key, a.ID).Err(); err != nil {
				return err
			}
		}
		if len(more) == 0 {
			return nil
		}
		return r.HSet(ctx, record, more...).Err()
	})
	check.Must(t, err)
}

// TestAnApprovalOfAnOldReplica: it is read, answered by one or several people, and used. An answer that an old
// replica has stored counts as that of one person.
func TestAnApprovalOfAnOldReplica(t *testing.T) {
	t.Parallel()
	s := open(t, redisstore.Config{})
	k, st := service(t, s, approvals.Options{}), s.Approvals()
	one := request(`{"to":"bob"}`)
	a := ask(t, k, one)
	asOldReplica(t, st, &a)
	got, err := k.Get(t.Context(), a.Tenant, a.ID)
	if err != nil || got.State != approvals.Pending || got.Value != "" || got.Preview != a.Preview ||
		got.User != a.User || got.Terms == nil || got.Terms.Answers != 1 || len(got.Answers) != 0 {
		t.Fatalf("got %+v, %v", got, err)
	}
	k.SetAnswerRules(anyCall(approvals.AnswerRule{Answers: 2}))
	for i, name := range []string{"bob", "eve"} {
		got, err = k.Approve(t.Context(), a.Tenant, a.ID, approvals.Answer{By: name, Who: person(name)})
		if want := []approvals.State{approvals.Pending, approvals.Approved}[i]; err != nil || got.State != want ||
			len(got.Answers) != i+1 {
			t.Fatalf("%s: %+v, %v", name, got, err)
		}
	}
	_, refusal := k.Redeem(t.Context(), a.ID, one)
	wantRefusal(t, "redeemed", refusal, "")

	b := ask(t, k, request(`{"to":"eve"}`)) // which an old replica answers
	at := b.Created.Add(time.Second).UnixMilli()
	asOldReplica(t, st, &b, "state", "denied", "answered", at, "answer", "token", "by", "ann", "comment", "too far",
		"remember", "call")
	got, err = k.Get(t.Context(), b.Tenant, b.ID)
	if err != nil || got.State != approvals.Denied || len(got.Answers) != 1 || got.Answers[0].By != "ann" ||
		got.Answers[0].State != approvals.Denied || got.Answers[0].Comment != "too far" ||
		got.Answered.UnixMilli() != at {
		t.Errorf("got %+v, %v", got, err)
	}
	if _, err = k.Approve(t.Context(), b.Tenant, b.ID,
		approvals.Answer{Who: person("bob")}); refusedFor(err) != "APPROVAL_NOT_PENDING" {
		t.Errorf("answered again: %v", err)
	}
	_, refusal = k.Redeem(t.Context(), b.ID, request(`{"to":"eve"}`))
	wantRefusal(t, "denied", refusal, "APPROVAL_DENIED")

	k.SetAnswerRules(nil)
	c := ask(t, k, request(`{"to":"kim"}`)) // of a still older one, which did not bind the configuration of calls
	if err := st.Do(t.Context(), func(ctx context.Context, r redis.Cmdable) error {
		return r.HDel(ctx, st.RecordKey(c.Tenant, c.ID), approvals.SettingsField).Err()
	}); err != nil {
		t.Fatal(err)
	}
	approve(t, k, c, approvals.Answer{})
	_, refusal = k.Redeem(t.Context(), c.ID, request(`{"to":"kim"}`))
	wantRefusal(t, "without a sum of the configuration", refusal, "APPROVAL_MISMATCH")
}

// TestAnApprovalExpiresBetweenTwoAnswers: the second answer is rejected, the call does not run, and the first
// answer does not count for the next approval of the same call.
func TestAnApprovalExpiresBetweenTwoAnswers(t *testing.T) {
	onEveryRedis(t, func(t *testing.T, open func() *redisstore.Store) {
		s := open()
		k, other, st := service(t, s, approvals.Options{}), service(t, open(), approvals.Options{}), s.Approvals()
		for _, k := range []*approvals.Service{k, other} {
			k.SetAnswerRules(anyCall(approvals.AnswerRule{Answers: 2}))
		}
		a := ask(t, k, request("1"))
		if got, err := k.Approve(t.Context(), a.Tenant, a.ID, approvals.Answer{Who: person("bob")}); err != nil ||
			got.State != approvals.Pending || len(got.Answers) != 1 {
			t.Fatalf("got %+v, %v", got, err)
		}
		if err := st.Do(t.Context(), func(ctx context.Context, r redis.Cmdable) error {
			return r.HSet(ctx, st.RecordKey(a.Tenant, a.ID), "expires", a.Created.UnixMilli()).Err() // it has expired
		}); err != nil {
			t.Fatal(err)
		}
		for _, answer := range []func(context.Context, string, string, approvals.Answer) (approvals.Approval, error){
			other.Approve, k.Approve, k.Deny} {
			got, err := answer(t.Context(), a.Tenant, a.ID, approvals.Answer{Who: person("eve")})
			if refusedFor(err) != "APPROVAL_NOT_PENDING" || got.State != approvals.Expired || len(got.Answers) != 1 {
				t.Errorf("got %+v, %v", got, err)
			}
		}
		_, refusal := k.Redeem(t.Context(), a.ID, request("1"))
		wantRefusal(t, "redeemed", refusal, "APPROVAL_EXPIRED")
		if b := ask(t, k, request("1")); b.ID == a.ID || b.State != approvals.Pending || len(b.Answers) != 0 {
			t.Errorf("asked again: %+v", b)
		}
	})
}

// TestRedisIsAwayAmidSeveralAnswers: a person who answers meanwhile gets an error, may answer again, and counts
// once.
func TestRedisIsAwayAmidSeveralAnswers(t *testing.T) {
	t.Parallel()
	for name, fault := range map[string]struct{ begin, end func(*redistest.Server) }{
		"frozen": {(*redistest.Server).Freeze, (*redistest.Server).Thaw},
		"full":   {(*redistest.Server).Fill, (*redistest.Server).Relieve},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			server := redistest.Start(t)
			// One replica notices the fault soon. The other is not disturbed by a busy machine.
			hasty := service(t, open(t, impatient(server.URL())), approvals.Options{})
			k := service(t, open(t, redisstore.Config{URL: server.URL()}), approvals.Options{})
			for _, replica := range []*approvals.Service{hasty, k} {
				replica.SetAnswerRules(anyCall(approvals.AnswerRule{Answers: 3}))
			}
			a := ask(t, k, request("1"))
			give := func(at *approvals.Service, name string) (approvals.Approval, error) {
				return at.Approve(t.Context(), a.Tenant, a.ID, approvals.Answer{By: name, Who: person(name)})
			}
			if _, err := give(k, "bob"); err != nil {
				t.Fatal(err)
			}
			fault.begin(server)
			if _, err := give(hasty, "eve"); refusedFor(err) != "APPROVALS_UNAVAILABLE" {
				t.Errorf("while Redis is away: %v", err)
			}
			fault.end(server)
			check.Until(t, "an answer of eve's to count", func() (bool, string) {
				_, err := give(hasty, "eve")
				got, _ := k.Get(t.Context(), a.Tenant, a.ID)
				return (err == nil || refusedFor(err) == "ALREADY_ANSWERED") &&
					len(got.Answers) == 2, fmt.Sprint(err, got)
			})

			if _, err := give(k, "eve"); refusedFor(err) != "ALREADY_ANSWERED" {
				t.Errorf("eve, once more: %v", err)
			}
			_, refusal := k.Redeem(t.Context(), a.ID, request("1"))
			wantRefusal(t, "two of three", refusal, "APPROVAL_PENDING")
			got, err := give(k, "kim")
			var by []string
			for _, g := range got.Answers {
				by = append(by, g.By)
			}
			if slices.Sort(by); err != nil || got.State != approvals.Approved ||
				!slices.Equal(by, []string{"bob", "eve", "kim"}) {
				t.Errorf("got %v %v, %v", got.State, by, err)
			}
		})
	}
}
