package tenant_test

import (
	"maps"
	"testing"
	"time"

	"github.com/capgate/capgate/internal/call"
	"github.com/capgate/capgate/internal/tenant"
)

// TestExceededSome: the rejection names the limit of some calls, not the tenant's.
func TestExceededSome(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		some    tenant.Limit
		limit   call.Limit
		message string
		more    map[string]string // metadata besides limit and max
	}{
		{tenant.Limit{}, call.CallsPerSecond, "the tenant has exceeded its calls per second (7)", nil},
		{tenant.Limit{Per: "user"}, call.CallsPerSecond, "the user has exceeded its calls per second (7)",
			map[string]string{"per": "user"}},
		{tenant.Limit{Per: "agent", Capability: "weather"}, call.PerDay,
			"the agent has used its daily quota of calls (7 for this capability)",
			map[string]string{"per": "agent", "capability": "weather"}},
		{tenant.Limit{Per: "capability"}, call.PerMonth,
			"the tenant has used its monthly quota of calls (7 for this capability)",
			map[string]string{"per": "capability"}},
		{tenant.Limit{Capability: "weather", Tool: "get_forecast"}, call.Concurrent,
			"the tenant has reached its limit of concurrent calls (7 for this tool)",
			map[string]string{"capability": "weather", "tool": "get_forecast"}},
	} {
		got := tenant.LimitExceeded("acme", test.some, test.limit, 7, time.Second-time.Microsecond)
		want := map[string]string{"limit": test.limit.String(), "max": "7"}
		maps.Copy(want, test.more)
		if got.Message != test.message || !maps.Equal(got.Metadata, want) || got.Quota != "tenant:acme" ||
			got.RetryAfter != time.Second {
			t.Errorf("%+v: %q, %v, %s", test.some, got.Message, got.Metadata, got.Quota)
		}
	}
}
