package summary_test

import (
	"testing"

	"github.com/capgate/capgate/gateway/admin/summary"
)

// TestTextOfALimit: the text of a tenant near a limit says what the limit counts.
func TestTextOfALimit(t *testing.T) {
	t.Parallel()
	for want, of := range map[string]summary.NearLimit{
		"acme has used 85% of its 100 calls a day":                     {},
		"a user of acme has used 85% of its 100 calls a day":           {Per: "user", Capability: "*"},
		"an agent of acme has used 85% of its 100 calls a day for w":   {Per: "agent", Capability: "w"},
		"acme has used 85% of its 100 calls a day for weather.get":     {Capability: "weather", Tool: "get"},
		"acme has used 85% of its 100 calls a day for the tool get":    {Tool: "get"},
		"acme has used 85% of its 100 calls a day for a capability":    {Per: "capability"},
		"a user of acme has used 85% of its 100 calls a day for w.get": {Per: "user", Capability: "w", Tool: "get"},
	} {
		of.Tenant, of.Period, of.Used, of.Most = "acme", "a day", 85, 100
		if got := of.Text(); got != want {
			t.Errorf("%q, want %q", got, want)
		}
	}
}
