package policy_test

import (
	"testing"

	"github.com/capgate/capgate/internal/call"
	"github.com/capgate/capgate/policy"
)

func TestWithoutRulesCallsAreAllowed(t *testing.T) {
	t.Parallel()
	if v := policy.New().Decide(&call.Call{Tenant: "default", Capability: "weather", Tool: "get_forecast"}); v != policy.Allow {
		t.Errorf("got %v", v)
	}
}

func TestAVerdictLeftOutBlocks(t *testing.T) {
	t.Parallel()
	var v policy.Verdict
	if v != policy.Block || v.String() != "block" {
		t.Errorf("got %v", v)
	}
}
