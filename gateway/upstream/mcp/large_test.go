package mcp_test

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/capgate/capgate/gateway/upstream"
	"github.com/capgate/capgate/internal/manifest"
	"github.com/capgate/capgate/internal/testkit/check"
)

// TestLargeList: a list with many tools of many fields, which is within the bounds, is one that the catalog takes.
func TestLargeList(t *testing.T) {
	t.Parallel()
	const tools, fields = 900, 60
	var schema strings.Builder
	schema.WriteString(`{"type":"object","properties":{`)
	for n := range fields {
		fmt.Fprintf(&schema, `"field_%d":{"type":"string","description":"a field"},`, n)
	}
	schema.WriteString(`"last":{"type":"string"}}}`)
	for era, old := range eras {
		t.Run(era, func(t *testing.T) {
			t.Parallel()
			r := newRemote(t, old)
			for i := range tools {
				r.mcp.AddTool(&sdk.Tool{Name: fmt.Sprintf("tool_%d", i), InputSchema: json.RawMessage(schema.String())},
					func(context.Context, *sdk.CallToolRequest) (*sdk.CallToolResult, error) {
						return &sdk.CallToolResult{}, nil
					})
			}
			w := start(t, nil, r.URL)
			got, err := w.Invoke(within(t), request(upstream.DiscoveryTool, `{}`))
			check.Must(t, err)
			found, err := manifest.ParseTools(got.GetResultJson())
			if err != nil || len(found) < tools || len(got.GetResultJson()) < 2_500_000 {
				t.Errorf("%d tools in %d bytes, %v", len(found), len(got.GetResultJson()), err)
			}
		})
	}
}
