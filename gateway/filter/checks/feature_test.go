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

// TestFeature: features of an MCP server are called over MCP alone, and callers never list them.
func TestFeature(t *testing.T) {
	t.Parallel()
	servers := filtertest.Fleet(router.FleetConfig{Backends: router.Addrs("a:1"), Protocol: relayed{}})
	other := filtertest.Fleet(router.FleetConfig{Backends: router.Addrs("a:1")})
	for tool, over := range map[string][2]string{ // MCP and other protocols
		manifest.Complete:     {"", "MCP_REQUIRED"},
		manifest.ReadResource: {"", "MCP_REQUIRED"},
		"prompts/secret":      {"", "MCP_REQUIRED"},
		manifest.ListFeatures: {"TOOL_UNKNOWN", "TOOL_UNKNOWN"},
		"forecast":            {"", ""},
	} {
		for _, p := range []call.Protocol{call.MCP, call.JSON, call.GRPC, call.GRPCWeb, call.Connect, call.Console,
			call.UnknownProtocol} {
			want := over[1]
			if p == call.MCP {
				want = over[0]
			}
			c, _ := filtertest.NewCall()
			c.Info.Tool, c.Client.Protocol, c.Fleet = tool, p, servers
			if got := reason(checks.Feature(c)); got != want {
				t.Errorf("%s over %s: %q, want %q", tool, p, got, want)
			}
			c.Fleet = other
			if got := reason(checks.Feature(c)); got != "" {
				t.Errorf("%s of another protocol over %s: %q", tool, p, got)
			}
		}
	}
}
