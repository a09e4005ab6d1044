package gateway_test

import (
	"context"
	"net/http"
	"slices"
	"strings"
	"testing"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"
	"golang.org/x/oauth2"

	"github.com/capgate/capgate/gateway/frontdoor/mcp"
	"github.com/capgate/capgate/internal/testkit/check"
	"github.com/capgate/capgate/internal/testkit/gatewaytest"
)

// TestMCPScopeIsMissing: a message whose caller lacks a scope gets 403 with the name of the scope, whatever the
// client accepts.
func TestMCPScopeIsMissing(t *testing.T) {
	t.Parallel()
	ring := newKeyring()
	f := startMCP(t, func(o *gatewaytest.Options) {
		o.Authenticator = ring.authenticator()
		o.MCP.Settings.Issuers, o.MCP.Settings.PublicURL = []string{"https://login.example"}, "https://tools.example"
		o.MCP.Settings.Search = []string{"acme"}
	})
	const metadata = `resource_metadata="https://tools.example/.well-known/oauth-protected-resource/mcp"`
	call := func(tool, more string) string {
		return `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"` + tool + `"` + more + `}}`
	}
	echo, progress := "caps__"+gatewaytest.Echo, `,"_meta":{"progressToken":1}`
	for _, c := range []struct{ method, key, body, scope string }{
		{"POST", "caller", `{"jsonrpc":"2.0","id":1,"method":"tools/list"}`, "read"},
		{"POST", "caller", `{"jsonrpc":"2.0","id":"x","method":"tools/list","params":{"_meta":{"progressToken":1}}}`,
			"read"},
		{"POST", "caller", call("search_tools", `,"arguments":{"query":"x"}`), "read"},
		{"GET", "caller", "", "read"},
		{"POST", "reader", call(echo, ""), "invoke"},
		{"POST", "reader", call(echo, progress), "invoke"},
		{"POST", "reader", call("call_tool", `,"arguments":{"name":"`+echo+`"}`), "invoke"},
		{"POST", "approver", call(echo, ""), "invoke"},
	} {
		for _, key := range [][]string{{"Authorization", "Bearer " + ring.credentials[c.key]},
			{"X-Api-Key", ring.credentials[c.key]}} {
			resp := f.open(t, c.method, c.body, append(key, "Mcp-Protocol-Version", "2025-06-18")...)
			challenge := resp.Header.Get("WWW-Authenticate")
			if resp.StatusCode != http.StatusForbidden || !strings.HasPrefix(challenge, "Bearer "+metadata+", ") ||
				!strings.Contains(challenge, `error="insufficient_scope", scope="`+c.scope+`"`) ||
				!strings.HasPrefix(resp.Header.Get("Content-Type"), "application/json") {
				t.Errorf("%+v: %d %q %v", c, resp.StatusCode, challenge, resp.Header)
			}
		}
	}
	if n := len(f.capability.Seen()); n != 0 {
		t.Errorf("a backend got %d calls", n)
	}
}

// stepUp is the part of an OAuth client that gets another token when a scope is missing.
type stepUp struct {
	token, better string
	challenges    []string
}

func (s *stepUp) TokenSource(context.Context) (oauth2.TokenSource, error) {
	return oauth2.StaticTokenSource(&oauth2.Token{AccessToken: s.token}), nil
}

func (s *stepUp) Authorize(_ context.Context, _ *http.Request, resp *http.Response) error {
	s.token, s.challenges = s.better, append(s.challenges, resp.Header.Get("WWW-Authenticate"))
	return resp.Body.Close()
}

// TestMCPClientStepsUp: a client whose token lacks a scope gets another token, and its call runs.
func TestMCPClientStepsUp(t *testing.T) {
	t.Parallel()
	ring := newKeyring()
	f := startMCP(t, func(o *gatewaytest.Options) { o.Authenticator = ring.authenticator() })
	for _, revision := range revisions {
		up := &stepUp{token: ring.credentials["reader"], better: ring.credentials["acme"]}
		s, err := sdk.NewClient(&sdk.Implementation{Name: "test", Version: "1"}, nil).Connect(t.Context(),
			&sdk.StreamableClientTransport{Endpoint: f.gateway.URL(mcp.Path), HTTPClient: f.gateway.HTTP1(t),
				MaxRetries: -1, OAuthHandler: up}, &sdk.ClientSessionOptions{ProtocolVersion: revision})
		check.Must(t, err)
		r, err := s.CallTool(t.Context(), &sdk.CallToolParams{Name: "caps__" + gatewaytest.Echo,
			Arguments: map[string]any{"a": 1}})
		if err != nil || textOf(t, r) != `{"a":1}` ||
			!slices.Equal(up.challenges, []string{`Bearer error="insufficient_scope", scope="invoke"`}) {
			t.Errorf("%s: %+v %v %q", revision, r, err, up.challenges)
		}
		_ = s.Close()
	}
}
