package policy_test

import (
	"testing"

	"github.com/capgate/capgate/internal/call"
	"github.com/capgate/capgate/policy"
)

func TestWithoutRulesCallsAreAllowed(t *testing.T) {
	t.Parallel()
	if v := policy.New().Decide(&call.Call{Tenant: "default", Capability: "weather", Tool: "get_forecast"}); v != call.Allow {
		t.Errorf("got %v", v)
	}
}
