package gateway_test

import (
	"net/http"
	"regexp"
	"strings"
	"testing"

	"github.com/capgate/capgate/gateway/builtin/listing"
	"github.com/capgate/capgate/gateway/frontdoor/mcp/tools"
	"github.com/capgate/capgate/internal/call"
	"github.com/capgate/capgate/internal/testkit/check"
	"github.com/capgate/capgate/internal/testkit/gatewaytest"
	"github.com/capgate/capgate/policy"
	"github.com/capgate/capgate/policy/catalog"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"
)

// TestMCPFiles: a file that a result names is returned as a link from which anyone may download it.
func TestMCPFiles(t *testing.T) {
	t.Parallel()
	known := catalog.New(catalog.Options{})
	known.Replace(map[string]catalog.Declaration{"caps": {Policy: call.Allow}})
	decider, err := policy.New(policy.Options{Source: known})
	check.Must(t, err)
	signed := startSigned(t, func(o *gatewaytest.Options) {
		o.MCP = tools.Config{Usable: listing.New(known, decider)}
	})
	f := &mcpFront{gateway: signed.gateway, capability: signed.capability}
	up := transfer(t, f.gateway.HTTP1(t), http.MethodPost, f.gateway.URL(filesPath+"?filename=a.txt"),
		strings.NewReader("acme's"), "X-Api-Key", signed.keys["acme"], "X-Session-Id", "s1").uploaded(t)
	address := regexp.MustCompile(`http://\S+\?signature=\S+`)
	for _, revision := range revisions {
		s := f.session(t, revision, nil, "X-Api-Key", signed.keys["acme"], "X-Session-Id", "s1")
		r, err := s.CallTool(t.Context(), &sdk.CallToolParams{Name: "caps__" + gatewaytest.Echo,
			Arguments: map[string]any{
				"file": map[string]any{"capability_artifact_id": up.ID}, "x": []any{"other", 7}}})
		if err != nil || len(r.Content) != 2 {
			t.Fatalf("%s: %+v %v", revision, r, err)
		}
		var url string
		switch c := r.Content[1].(type) {
		case *sdk.ResourceLink:
			if url = c.URI; c.Name != up.ID {
				t.Errorf("got %+v", c)
			}
		case *sdk.TextContent: // links are newer
			if url = address.FindString(c.Text); revision != "2025-03-26" {
				t.Errorf("%s: %s", revision, c.Text)
			}
		}
		got := transfer(t, f.gateway.HTTP1(t), http.MethodGet, url, nil)
		if string(got.body) != "acme's" || !strings.HasPrefix(url, f.gateway.URL(up.Path)) {
			t.Errorf("%s: %q at %q", revision, got.body, url)
		}
	}
}
