package redisstore_test

import (
	"errors"
	"testing"

	"github.com/capgate/capgate/internal/call"
	"github.com/capgate/capgate/internal/redisstore"
	"github.com/capgate/capgate/policy/approvals"
)

// TestWithdrawn: withdrawn approvals have expired, and the same call creates a new one. Others stay unchanged.
func TestWithdrawn(t *testing.T) {
	onEveryRedis(t, func(t *testing.T, open func() *redisstore.Store) {
		k := service(t, open(), approvals.Options{})
		elsewhere := request("1")
		elsewhere.Level, elsewhere.Why = approvals.Elsewhere, "answer at the engine"
		first := ask(t, k, elsewhere)
		var refusal *call.Refusal
		_, err := k.Approve(t.Context(), elsewhere.Tenant, first.ID, approvals.Answer{By: "eve"})
		if !errors.As(err, &refusal) || refusal.Reason != "APPROVAL_ELSEWHERE" ||
			refusal.Kind != call.FailedPrecondition {
			t.Errorf("answered: %v; refusal %+v", err, refusal)
		}
		answered := ask(t, k, request("2"))
		approve(t, k, answered, approvals.Answer{})
		for _, a := range []approvals.Approval{first, first, answered} {
			if err := k.Withdraw(t.Context(), a.Tenant, a.ID); err != nil {
				t.Error(err)
			}
		}
		if err := k.Withdraw(t.Context(), "acme", "apr_"); err != nil {
			t.Errorf("an unknown approval: %v", err)
		}
		for _, want := range []struct {
			id    string
			state approvals.State
		}{{first.ID, approvals.Expired}, {answered.ID, approvals.Approved}} {
			if a, err := k.Get(t.Context(), first.Tenant, want.id); err != nil || a.State != want.state {
				t.Errorf("%v, %v, want %v", a.State, err, want.state)
			}
		}
		if again := ask(t, k, elsewhere); again.ID == first.ID || again.State != approvals.Pending {
			t.Errorf("asked again: %+v", again)
		}
		if _, err := k.Deny(t.Context(), elsewhere.Tenant, first.ID, approvals.Answer{}); !errors.As(err, &refusal) ||
			refusal.Reason != "APPROVAL_NOT_PENDING" {
			t.Errorf("answered too late: %v; refusal %+v", err, refusal)
		}
	})
}
