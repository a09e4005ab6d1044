package checks_test

import (
	"testing"

	"github.com/capgate/capgate/gateway/filter/checks"
	"github.com/capgate/capgate/internal/call"
	"github.com/capgate/capgate/internal/manifest"
	"github.com/capgate/capgate/internal/testkit/filtertest"
	"github.com/capgate/capgate/router"
)

// relayed is the protocol of MCP servers.
type relayed struct{ router.Protocol }

func (relayed) Traits() router.Traits { return router.Traits{Relayed: true} }

func (relayed) Same(router.Protocol) bool { return true }

// TestFeature: only front doors that serve features call the features of an MCP server, whatever the protocol, and
// callers never list them. Other capabilities have no features.
func TestFeature(t *testing.T) {
	t.Parallel()
	servers := filtertest.Fleet(router.FleetConfig{Backends: router.Addrs("a:1"), Protocol: relayed{}})
	other := filtertest.Fleet(router.FleetConfig{Backends: router.Addrs("a:1")})
	for tool, want := range map[string]struct{ marked, unmarked, other string }{
		manifest.Complete:     {"", "MCP_REQUIRED", "PROMPT_UNKNOWN"},
		manifest.ReadResource: {"", "MCP_REQUIRED", "RESOURCE_UNKNOWN"},
		"prompts/secret":      {"", "MCP_REQUIRED", "PROMPT_UNKNOWN"},
		manifest.ListFeatures: {"TOOL_UNKNOWN", "TOOL_UNKNOWN", "PROMPT_UNKNOWN"},
		"forecast":            {"", "", "PROMPT_UNKNOWN"},
	} {
		for _, p := range []call.Protocol{call.MCP, call.JSON, call.GRPC} {
			c, _ := filtertest.NewCall()
			c.Info.Tool, c.Client.Protocol, c.Fleet = tool, p, servers
			unmarked := reason(checks.Feature(c))
			c.Feature = true
			marked := reason(checks.Feature(c))
			c.Fleet = other
			if got := reason(checks.Feature(c)); got != want.other {
				t.Errorf("%s of another capability over %s: %q", tool, p, got)
			}
			if marked != want.marked || unmarked != want.unmarked {
				t.Errorf("%s over %s: %q from a door of features, otherwise %q", tool, p, marked, unmarked)
			}
			c.Feature = false
			if got := reason(checks.Feature(c)); got != "" {
				t.Errorf("the tool %s of another capability over %s: %q", tool, p, got)
			}
		}
	}
}
