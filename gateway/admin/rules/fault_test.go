package rules_test

import (
	"errors"
	"testing"

	"github.com/capgate/capgate/gateway/admin/rules"
	"github.com/capgate/capgate/internal/call"
	"github.com/capgate/capgate/internal/testkit/check"
	"github.com/capgate/capgate/internal/testkit/gatewaytest"
	"github.com/capgate/capgate/policy"
)

// TestAfterAFault: a change that may have been made although the store failed is in force at once.
func TestAfterAFault(t *testing.T) {
	t.Parallel()
	const query = "capability=weather&tool=x"
	for _, change := range []struct{ method, path, body string }{
		{"PUT", "/v1/policies", `{"capability":"weather","tool":"x","policy":"block"}`},
		{"DELETE", "/v1/policies?" + query, ""},
	} {
		b := &book{rules: []policy.Rule{{Tenant: "default", Name: policy.Name{Capability: "weather", Tool: "x"},
			Verdict: call.Allow}}}
		decider, err := policy.New(policy.Options{Store: b})
		check.Must(t, err)
		decider.Synced()
		services := gatewaytest.ServeOperators(t, rules.New(rules.Config{Rules: b, Candidates: new(book),
			Decider: decider}))
		of := &call.Call{Tenant: "default", Capability: "weather", Tool: "x"}
		if got, refusal := decider.Fetch(t.Context(), of); refusal != nil || got.Verdict != call.Allow {
			t.Fatalf("%+v, %v", got, refusal)
		}
		b.fail(errors.New("the answer was lost"))
		if status, body := services.Ask(t, change.method, change.path, change.body); status != 503 {
			t.Errorf("%s: %d %s", change.method, status, body)
		}
		b.fail(nil)
		if got, refusal := decider.Fetch(t.Context(), of); refusal != nil || got.Verdict != call.Block {
			t.Errorf("%s: %+v, %v", change.method, got, refusal)
		}
	}
}
