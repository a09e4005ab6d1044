package gateway_test

import (
	"strings"
	"testing"

	"github.com/capgate/capgate/gateway/builtin/listing"
	"github.com/capgate/capgate/internal/call"
	"github.com/capgate/capgate/internal/manifest"
	"github.com/capgate/capgate/internal/testkit/gatewaytest"
	"github.com/capgate/capgate/policy/catalog"
)

// TestMCPHiddenTools: a tool that policy hides from a caller gets the same response as one that does not exist:
// whatever blocks it, whatever allows other tools, and whether arguments are checked. A listed tool's error
// says why a call is blocked.
func TestMCPHiddenTools(t *testing.T) {
	t.Parallel()
	suggests := tool(t, "suggests")
	suggests.Recommends, suggests.Recommended = true, call.Block
	tools := &manifest.Manifest{Tools: []manifest.Tool{tool(t, gatewaytest.Echo), tool(t, "hidden"), suggests}}
	for name, declared := range map[string]catalog.Declaration{
		"an open fleet":  {Policy: call.Allow, Manifest: tools},
		"a closed fleet": {Policy: call.Block, Manifest: tools},
		"arguments":      {Policy: call.Allow, Validate: true, Manifest: tools},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f := startMCP(t, func(o *gatewaytest.Options) {
				o.MCP.Absent = o.MCP.Usable.(*listing.Server).Absent //nolint:forcetypeassert // it is one
			})
			f.known.Replace(map[string]catalog.Declaration{"caps": declared})
			invoke := func(tool string) string {
				_, text := f.post(t, `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"caps__`+tool+
					`"}}`, "X-Request-Id", "r")
				return text
			}
			absent := invoke("absent")
			if !strings.Contains(absent, `"code":-32602`) || !strings.Contains(absent, `"reason":"TOOL_UNKNOWN"`) ||
				strings.Contains(absent, "level") {
				t.Errorf("absent: %s", absent)
			}
			meant := `did you mean \"caps__echo\"? tools/list`
			if declared.Policy == call.Block { // the caller may call none
				meant = "; tools/list"
			}
			for _, misspelt := range []string{"ecoh", "hiden", "sugests"} {
				want := meant
				if misspelt != "ecoh" {
					want = "; tools/list"
				}
				if got := invoke(misspelt); !strings.Contains(got, want) || strings.Contains(got, "did you mean") !=
					strings.Contains(want, "did you mean") {
					t.Errorf("%s: %s, want %s", misspelt, got, want)
				}
			}
			for _, hidden := range []string{"hidden", "suggests"} {
				if got := strings.ReplaceAll(invoke(hidden), hidden, "absent"); got != absent {
					t.Errorf("%s: %s, absent: %s", hidden, got, absent)
				}
			}
		})
	}
}

// TestMCPUndiscoveredTools: while the tools of a capability are not known, a call says so, whatever rules say about the
// tool. A capability that does not exist has no tools.
func TestMCPUndiscoveredTools(t *testing.T) {
	t.Parallel()
	f := startMCP(t, func(o *gatewaytest.Options) {
		o.Fleets = append(o.Fleets, gatewaytest.Fleet{Capability: "late", Backends: o.Fleets[0].Backends})
		o.Policy.Store.(*ruled).rules[on("late", "hidden")] = call.Block //nolint:forcetypeassert // it is one
	})
	f.known.Replace(map[string]catalog.Declaration{"late": {Policy: call.Allow, Validate: true,
		Manifest: &manifest.Manifest{Dynamic: true, DiscoveryTool: "list_tools"}}})
	invoke := func(tool string) string {
		_, text := f.post(t, `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"`+tool+`"}}`,
			"X-Request-Id", "r")
		return text
	}
	unknown := invoke("late__" + gatewaytest.Echo)
	for _, part := range []string{`"reason":"TOOLS_UNKNOWN"`, `"code":"UNAVAILABLE"`, "not known yet",
		`"retry_after":1`} {
		if !strings.Contains(unknown, part) {
			t.Errorf("without %s: %s", part, unknown)
		}
	}
	if got := invoke("late__hidden"); got != unknown {
		t.Errorf("a blocked tool: %s, another: %s", got, unknown)
	}
	if got := invoke("absent__echo"); !strings.Contains(got, `"code":-32602`) ||
		!strings.Contains(got, `"reason":"TOOL_UNKNOWN"`) || strings.Contains(got, "no capability") {
		t.Errorf("of an unknown capability: %s", got)
	}
	if n := len(f.capability.Seen()); n != 0 {
		t.Errorf("%d calls at the backend", n)
	}
}
