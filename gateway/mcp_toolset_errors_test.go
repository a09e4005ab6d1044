package gateway_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"strings"
	"testing"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/capgate/capgate/gateway/frontdoor/mcp"
	"github.com/capgate/capgate/internal/lib/changefeed"
	"github.com/capgate/capgate/internal/stored"
	"github.com/capgate/capgate/internal/testkit/gatewaytest"
	"github.com/capgate/capgate/internal/toolset"
)

// TestMCPToolsetFixedWrongly: a fixed value that the schema of the tool rejects is an error of the toolset's operator.
func TestMCPToolsetFixedWrongly(t *testing.T) {
	t.Parallel()
	f := startMCP(t)
	f.units(t, "Echoes.")
	f.gateway.SetMCP(mcp.Settings{Toolsets: toolset.New([]toolset.Toolset{{Name: "weather", Tools: []toolset.Entry{
		{Capability: "caps", Tool: gatewaytest.Echo, Arguments: fixed(t, `{"units":"furlongs"}`)}}}})})
	const blame = `the toolset weather fixes for the argument "units" does not match`
	for _, revision := range revisions {
		s := f.at("/mcp/weather").session(t, revision, nil)
		for args, operator := range map[string]bool{`{"city":"Bonn"}`: true, `{"city":1}`: false} {
			r, err := s.CallTool(t.Context(), &sdk.CallToolParams{Name: "caps__" + gatewaytest.Echo,
				Arguments: json.RawMessage(args)})
			if err != nil || !r.IsError || strings.Contains(textOf(t, r), blame) != operator ||
				!strings.Contains(textOf(t, r), `at "/units"`) ||
				strings.Contains(textOf(t, r), "correct the toolset (") != operator ||
				!strings.Contains(fmt.Sprint(r.Meta), "ARGUMENTS_INVALID") {
				t.Errorf("%s: %s: %+v %v", revision, args, r, err)
			}
		}
	}
}

// silent is a store that does not respond.
type silent struct{ stored.Store }

func (silent) Changed(context.Context, changefeed.Position) (stored.Changes, error) {
	return stored.Changes{}, errors.New("no answer")
}

// TestMCPToolsetUnread: before the stored toolsets are read, a name may be that of one.
func TestMCPToolsetUnread(t *testing.T) {
	t.Parallel()
	f := startMCP(t)
	all := toolset.NewManager(silent{}, nil, nil, slog.New(slog.DiscardHandler))
	all.SetFile([]toolset.Toolset{{Name: "filed", Tools: []toolset.Entry{{Capability: "caps", Tool: "*"}}}})
	all.Read(t.Context())
	f.gateway.SetMCP(mcp.Settings{Toolsets: all.Sets()})
	const list = `{"jsonrpc":"2.0","id":1,"method":"tools/list"}`
	resp, text := f.at("/mcp/stored").post(t, list)
	if resp.StatusCode != http.StatusServiceUnavailable || resp.Header.Get("Retry-After") == "" ||
		!strings.Contains(text, "TOOLSETS_UNAVAILABLE") {
		t.Errorf("%d %v %s", resp.StatusCode, resp.Header, text)
	}
	if resp, text = f.at("/mcp/filed").post(t, list); resp.StatusCode != http.StatusOK {
		t.Errorf("%d %s", resp.StatusCode, text)
	}
}

// TestMCPToolsetOfAbsentCapability: a tool of a capability that the caller does not see is unknown under the name that
// the toolset gives it. The error does not name the capability.
func TestMCPToolsetOfAbsentCapability(t *testing.T) {
	t.Parallel()
	f := startMCP(t)
	f.gateway.SetMCP(mcp.Settings{Toolsets: toolset.New([]toolset.Toolset{{Name: "weather", Tools: []toolset.Entry{
		{Capability: "secret", Tool: "add", Name: "plus"}}}})})
	_, text := f.at("/mcp/weather").post(t,
		`{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"plus"}}`)
	if !strings.Contains(text, "TOOL_UNKNOWN") || !strings.Contains(text, `no tool \"plus\"`) ||
		strings.Contains(text, "secret") {
		t.Error(text)
	}
}
