package gateway_test

import (
	"net/http"
	"strings"
	"testing"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/capgate/capgate/gateway/filter/authenticate"
	"github.com/capgate/capgate/internal/call"
	"github.com/capgate/capgate/internal/tenant"
	"github.com/capgate/capgate/internal/testkit/gatewaytest"
)

// TestMCPKeys: every request requires a credential, and a caller sees what its tenant may use.
func TestMCPKeys(t *testing.T) {
	t.Parallel()
	ring := newKeyring()
	f := startMCP(t, func(o *gatewaytest.Options) {
		o.Authenticator = ring.authenticator()
		o.MCP.Keys = gatewaytest.SharedKeys
	})
	for _, revision := range revisions {
		if _, err := f.connect(t, revision, nil); err == nil {
			t.Errorf("%s: a client without a credential has a session", revision)
		}
		_, err := f.session(t, revision, nil, "X-Api-Key", ring.credentials["caller"]).ListTools(t.Context(), nil)
		if err == nil || !strings.Contains(err.Error(), "Forbidden") {
			t.Errorf("%s: a key without the scope read lists tools: %v", revision, err)
		}
		for _, header := range [][2]string{{"Authorization", "Bearer " + ring.credentials["acme"]},
			{"X-Api-Key", ring.credentials["acme"]}} {
			s := f.session(t, revision, nil, header[0], header[1])
			if _, err := s.ListTools(t.Context(), nil); err != nil {
				t.Errorf("%s: %v", revision, err)
			}
			r, err := s.CallTool(t.Context(), &sdk.CallToolParams{Name: "caps__" + gatewaytest.Echo})
			if err != nil || textOf(t, r) != "{}" {
				t.Errorf("%s: %v %v", revision, r, err)
			}
		}
		s := f.session(t, revision, nil, "X-Api-Key", ring.credentials["reader"])
		_, err = s.CallTool(t.Context(), &sdk.CallToolParams{Name: "caps__" + gatewaytest.Echo})
		if err == nil || !strings.Contains(err.Error(), "Forbidden") {
			t.Errorf("%s: a key without the scope invoke calls a tool: %v", revision, err)
		}
	}
	begun, _ := f.post(t, `{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"2025-11-25",`+
		`"capabilities":{},"clientInfo":{"name":"x","version":"1"}}}`, "X-Api-Key", ring.credentials["acme"])
	for of, want := range map[string]int{"acme": http.StatusOK, "orchestrator": http.StatusNotFound,
		"globex": http.StatusNotFound} {
		resp, text := f.post(t, `{"jsonrpc":"2.0","id":2,"method":"ping"}`, "X-Api-Key", ring.credentials[of],
			"Mcp-Session-Id", begun.Header.Get("Mcp-Session-Id"), "Mcp-Protocol-Version", "2025-11-25")
		if resp.StatusCode != want {
			t.Errorf("the session of a key with that of %s: %d %s", of, resp.StatusCode, text)
		}
	}
	seen := f.capability.Seen()
	for _, s := range seen {
		if len(s.Metadata.Get("authorization")) > 0 || len(s.Metadata.Get("x-api-key")) > 0 {
			t.Errorf("a backend gets a credential: %v", s.Metadata)
		}
	}
}

// tokens returns tokens of an issuer for one person in several tenants, which the tokens name.
type tokens struct{ authenticate.Authenticator }

func (tokens) Lookup(c tenant.Credentials) (who tenant.Identity, known bool, refusal *call.Refusal) {
	return tenant.Identity{Tenant: c.Credential, Key: "corp", User: "ann", Scopes: tenant.Invoke | tenant.Read}, true,
		nil
}

// TestMCPSessionsOfTenants: the session of a person in one tenant does not exist in another.
func TestMCPSessionsOfTenants(t *testing.T) {
	t.Parallel()
	f := startMCP(t, func(o *gatewaytest.Options) {
		o.Authenticator = tokens{}
		o.MCP.Keys = gatewaytest.SharedKeys
	})
	begun, _ := f.post(t, `{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"2025-11-25",`+
		`"capabilities":{},"clientInfo":{"name":"x","version":"1"}}}`, "Authorization", "Bearer acme")
	for of, want := range map[string]int{"acme": http.StatusOK, "globex": http.StatusNotFound} {
		resp, text := f.post(t, `{"jsonrpc":"2.0","id":2,"method":"ping"}`, "Authorization", "Bearer "+of,
			"Mcp-Session-Id", begun.Header.Get("Mcp-Session-Id"), "Mcp-Protocol-Version", "2025-11-25")
		if resp.StatusCode != want {
			t.Errorf("%s: %d %s", of, resp.StatusCode, text)
		}
	}
}
