package gateway_test

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/capgate/capgate/gateway/frontdoor/mcp"
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
				!strings.Contains(fmt.Sprint(r.Meta), "ARGUMENTS_INVALID") {
				t.Errorf("%s: %s: %+v %v", revision, args, r, err)
			}
		}
	}
}
