package gateway_test

import (
	"context"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/capgate/capgate/gateway/frontdoor/cors"
	"github.com/capgate/capgate/gateway/frontdoor/header"
	"github.com/capgate/capgate/internal/call"
	"github.com/capgate/capgate/internal/clientaddr"
	"github.com/capgate/capgate/internal/tenant"
	"github.com/capgate/capgate/internal/testkit/clienttest"
	"github.com/capgate/capgate/internal/testkit/gatewaytest"
)

// countedLookups accepts the credential "good" and counts lookups.
type countedLookups struct{ n atomic.Int64 }

func (c *countedLookups) Lookup(of tenant.Credentials) (tenant.Identity, bool, *call.Refusal) {
	c.n.Add(1)
	if of.Credential != "good" {
		return tenant.Identity{}, true, &call.Refusal{Kind: call.Unauthenticated, Reason: "CREDENTIAL_INVALID"}
	}
	return tenant.Identity{Tenant: "acme", Scopes: tenant.Invoke | tenant.Read, User: of.User,
		Asserts: tenant.User}, true, nil
}

func (c *countedLookups) Authenticate(context.Context, tenant.Credentials) (tenant.Identity, *call.Refusal) {
	c.n.Add(1)
	return tenant.Identity{}, &call.Refusal{Kind: call.Unavailable, Reason: "UNEXPECTED"}
}

// sent returns the response to a POST of JSON; header holds names and values in turn.
func sent(t *testing.T, client *http.Client, url, body string, header ...string) (*http.Response, string) {
	t.Helper()
	return clienttest.Send(t, client, http.MethodPost, url, body, append([]string{"Content-Type", "application/json"},
		header...)...)
}

// TestOneLookup: every request looks up its credential once, over each protocol and at each door. The call has
// the user that the headers name.
func TestOneLookup(t *testing.T) {
	t.Parallel()
	lookups := &countedLookups{}
	f := startMCP(t, func(o *gatewaytest.Options) { o.Authenticator = lookups })
	for _, p := range protocols {
		client := p.client(f.gateway, t)
		for name, request := range map[string][3]string{
			"JSON": {"/v1/capabilities/caps/tools/echo", `{}`, "200"},
			"Connect": {"/selu.capability.Capability/Invoke", `{"capabilityId":"caps","toolName":"echo"}`,
				"200"},
			"MCP": {"/mcp",
				`{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"caps__echo","arguments":{}}}`, "200"},
			"JSON of a stranger": {"/v1/capabilities/caps/tools/echo", `{}`, "401"},
		} {
			credential := "good"
			if request[2] == "401" {
				credential = "bad"
			}
			before := lookups.n.Load()
			resp, text := sent(t, client, f.gateway.URL(request[0]), request[1], "Authorization", "Bearer "+credential,
				"X-User-Id", "ann", "Accept", "application/json, text/event-stream")
			if got := lookups.n.Load() - before; got != 1 || !strings.HasPrefix(resp.Status, request[2]) {
				t.Errorf("%s over %s: %d lookups, %s %s", name, p.name, got, resp.Status, text)
			}
		}
	}
	for _, line := range f.gateway.Log.Calls(t, 4*len(protocols)) {
		if line["code"] == "OK" && line["user"] != "ann" {
			t.Errorf("the log has %v", line)
		}
	}
}

// TestForeignKeys: another service's key in x-api-key is not a credential of a JSON call.
func TestForeignKeys(t *testing.T) {
	t.Parallel()
	f := startMCP(t, func(o *gatewaytest.Options) { o.Authenticator = &countedLookups{} })
	for _, p := range protocols {
		resp, text := sent(t, p.client(f.gateway, t), f.gateway.URL("/v1/capabilities/caps/tools/echo"), `{}`,
			"Authorization", "Bearer good", "X-Api-Key", "sk-other")
		if resp.StatusCode != http.StatusOK {
			t.Errorf("%s: %s %s", p.name, resp.Status, text)
		}
	}
}

// TestInboxAndPages: pages of other sites have no access to the inbox, which accepts cookies.
func TestInboxAndPages(t *testing.T) {
	t.Parallel()
	f := startMCP(t, func(o *gatewaytest.Options) { o.CORS = cors.Config{Origins: []string{"https://app.example"}} })
	for path, want := range map[string]string{"/inbox/v1/approvals": "", "/v1/capabilities": "https://app.example"} {
		resp, text := sent(t, f.gateway.HTTP1(t), f.gateway.URL(path), `{}`, "Origin", "https://app.example")
		if got := resp.Header.Get("Access-Control-Allow-Origin"); got != want {
			t.Errorf("%s: %q is allowed: %s %s", path, got, resp.Status, text)
		}
	}
}

// TestStrippedHeaders: the table of headers names every header that is stripped before a backend.
func TestStrippedHeaders(t *testing.T) {
	t.Parallel()
	for use := header.ToCall; use <= header.Read; use <<= 1 {
		for _, f := range header.With(use) {
			if got := clientaddr.Reserved(f.Metadata); got != f.Has(header.Stripped) {
				t.Errorf("%s: stripped %t", f.Name, got)
			}
		}
	}
}
