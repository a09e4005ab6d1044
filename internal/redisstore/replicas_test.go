package redisstore_test

import (
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/capgate/capgate/internal/idempotency"
	"github.com/capgate/capgate/internal/redisstore"
	"github.com/capgate/capgate/internal/testkit/redistest"
	"github.com/capgate/capgate/policy/approvals"
)

// approved creates an approval and approves it.
func approved(t *testing.T, st *redisstore.ApprovalStore, id string) *approvals.Binding {
	t.Helper()
	d := &approvals.Draft{CallSum: approvals.Sum{id[len(id)-1]}, TTL: time.Hour, MaxOpen: 9}
	d.ID, d.Tenant, d.Tool = id, "acme", "send"
	if got, err := st.Create(t.Context(), d); err != nil || got.ID != id {
		t.Fatalf("ask: %+v, %v", got, err)
	}
	reply := &approvals.StoredAnswer{State: approvals.Approved, Token: "t", TTL: time.Hour}
	if got, ok, err := st.Answer(t.Context(), "acme", id, reply); ok != approvals.AnswerGiven || err != nil ||
		got.State != approvals.Approved {
		t.Fatalf("answer: %+v, %v, %v", got, ok, err)
	}
	return &d.Binding
}

// runs reports whether a call that redeems an approval runs.
func runs(t *testing.T, st *redisstore.ApprovalStore, w *approvals.Binding, id, token string) bool {
	t.Helper()
	was, _, err := st.Redeem(t.Context(), w, id, token)
	if err != nil && !errors.Is(err, redisstore.ErrUnreplicated) {
		t.Fatal(err)
	}
	return err == nil && was == approvals.Approved
}

// Times that a store waits for replicas: short where they must elapse, and very long where they must not, also
// on a busy machine.
const (
	soon  = 50 * time.Millisecond
	never = time.Minute
)

// waiting is a store whose redemptions wait for one replica.
func waiting(t *testing.T, url string, timeout time.Duration) *redisstore.Store {
	t.Helper()
	return open(t, redisstore.Config{URL: url, WaitReplicas: 1, WaitTimeout: timeout})
}

// TestAnApprovalRunsOnceAcrossAFailover: the promoted replica lacks the last redemptions. With WaitReplicas none of
// their calls ran.
func TestAnApprovalRunsOnceAcrossAFailover(t *testing.T) {
	t.Parallel()
	redis := redistest.StartReplicated(t)
	before := waiting(t, redis.URL(), never).Approvals()
	short := waiting(t, redis.URL(), soon)
	first, second, third := approved(t, before, "apr_1"), approved(t, before, "apr_2"), approved(t, before, "apr_3")
	ran := map[string]int{}
	count := func(id string, ok bool) {
		if ok {
			ran[id]++
		}
	}
	count("apr_1", runs(t, before, first, "apr_1", "a"))
	if ran["apr_1"] != 1 {
		t.Fatal("it does not run while the replica keeps up")
	}
	redis.Lag()
	count("apr_2", runs(t, short.Approvals(), second, "apr_2", "b"))
	refusedWhileItLags(t, short)
	again := open(t, redisstore.Config{URL: redis.Promote()}) // it waits for no replica, as none is left
	after := again.Approvals()
	count("apr_1", runs(t, after, first, "apr_1", "c"))
	count("apr_2", runs(t, after, second, "apr_2", "d"))
	count("apr_3", runs(t, after, third, "apr_3", "e"))
	for _, id := range []string{"apr_1", "apr_2", "apr_3"} {
		if ran[id] != 1 {
			t.Errorf("%s ran %d times", id, ran[id])
		}
	}
	if found, err := again.Idempotency().Begin(t.Context(), claimed("f")); err != nil ||
		found.State != idempotency.Mine {
		t.Errorf("a key whose call never ran: %+v, %v", found, err)
	}
}

// claimed is the claim of an idempotency key.
func claimed(token string) *idempotency.Claim {
	return &idempotency.Claim{Tenant: "acme", ID: "k", Fingerprint: "p", Token: token, Lease: time.Hour, TTL: time.Hour,
		Limit: 9}
}

// refusedWhileItLags checks a store that has rejected the redemption of apr_2 because the replica lags.
func refusedWhileItLags(t *testing.T, s *redisstore.Store) {
	t.Helper()
	if state, _, err := s.Approvals().State(t.Context(), "acme", "apr_2"); state != approvals.Approved || err != nil {
		t.Errorf("the use that was refused is not given back: %v, %v", state, err)
	}
	if found, err := s.Idempotency().Begin(t.Context(), claimed("a")); !errors.Is(err, redisstore.ErrUnreplicated) {
		t.Errorf("the claim of a key counts: %+v, %v", found, err)
	}
	if n := s.Stats().Unreplicated; n != 2 {
		t.Errorf("%d are counted", n)
	}
	if s.Unavailable() {
		t.Error("Redis counts as unavailable because a replica lags")
	}
}

// TestReplicasAreNoticed: operators are warned if writes do not wait for replicas.
func TestReplicasAreNoticed(t *testing.T) {
	t.Parallel()
	redis := redistest.StartReplicated(t)
	if s := open(t, redisstore.Config{URL: redis.URL()}); s.Replicas() != 1 || s.Replicated() {
		t.Errorf("%d replicas, replicated %v", s.Replicas(), s.Replicated())
	}
	if s := open(t, redisstore.Config{URL: redis.URL(), WaitReplicas: 1}); !s.Replicated() {
		t.Error("it waits for them")
	}
	if s := open(t, redisstore.Config{URL: servers.urls["server"]()}); s.Replicas() != 0 || !s.Replicated() {
		t.Errorf("%d replicas, replicated %v", s.Replicas(), s.Replicated())
	}
	if s := open(t, redisstore.Config{}); !s.Replicated() {
		t.Error("the embedded one has none")
	}
}

// TestUsesWaitOnEveryRedis: with WaitReplicas and no replica, nothing is redeemed.
func TestUsesWaitOnEveryRedis(t *testing.T) {
	t.Parallel()
	for name, url := range servers.urls {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			replicas := map[string]int{"sentinel": 1}[name]
			for wait, want := range map[int]bool{max(replicas, 1): replicas > 0, replicas + 1: false} {
				timeout := soon
				if want {
					timeout = never
				}
				st := open(t, redisstore.Config{
					URL: url(), Prefix: fmt.Sprintf("cg:test-%d:", servers.tests.Add(1)), WaitReplicas: wait,
					WaitTimeout: timeout,
				}).Approvals()
				w := approved(t, st, "apr_1")
				if got := runs(t, st, w, "apr_1", "a"); got != want {
					t.Errorf("%d replicas to wait for: runs %v", wait, got)
				}
				after := map[bool]approvals.State{true: approvals.Used, false: approvals.Approved}[want]
				if state, _, err := st.State(t.Context(), "acme", "apr_1"); state != after || err != nil {
					t.Errorf("%d replicas to wait for: the approval is %v, want %v; %v", wait, state, after, err)
				}
			}
		})
	}
}
