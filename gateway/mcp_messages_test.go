package gateway_test

import (
	"encoding/json"
	"io"
	"net/http"
	"slices"
	"strings"
	"testing"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/capgate/capgate/gateway/frontdoor/mcp"
	"github.com/capgate/capgate/internal/testkit/gatewaytest"
	"github.com/capgate/capgate/internal/testkit/issuertest"
)

// post sends a message as it is.
func (f *mcpFront) post(t *testing.T, body string, header ...string) (*http.Response, string) {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, f.gateway.URL(mcp.Path), strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("Content-Type", "application/json")
	req.Header.Set("Accept", "application/json, text/event-stream")
	for i := 0; i < len(header); i += 2 {
		req.Header.Set(header[i], header[i+1])
	}
	resp, err := f.gateway.HTTP1(t).Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	return resp, string(text)
}

// TestMCPHostileMessages: each has one reading or none, and gets the specified error.
func TestMCPHostileMessages(t *testing.T) {
	t.Parallel()
	f := startMCP(t)
	const meta = `"_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28",` +
		`"io.modelcontextprotocol/clientCapabilities":{}}`
	newest := []string{"Mcp-Protocol-Version", "2026-07-28", "Mcp-Method", "tools/call", "Mcp-Name", "caps__echo"}
	for name, c := range map[string]struct {
		body   string
		header []string
		status int
		code   int
	}{
		"a batch": {body: `[{"jsonrpc":"2.0","id":1,"method":"ping"}]`, status: 400, code: -32600},
		"no JSON": {body: `{"jsonrpc":`, status: 400, code: -32700},
		"two methods": {body: `{"jsonrpc":"2.0","id":1,"method":"ping","method":"tools/list"}`, status: 400,
			code: -32700},
		"two arguments": {body: `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"caps__echo",` +
			`"arguments":{"a":1,"a":2}}}`, status: 400, code: -32700},
		"nesting": {body: `{"jsonrpc":"2.0","id":1,"method":"ping","params":` + strings.Repeat(`{"a":`, 200) + `1` +
			strings.Repeat(`}`, 201), status: 400, code: -32700},
		"no version":        {body: `{"id":1,"method":"ping"}`, status: 400, code: -32600},
		"a null id":         {body: `{"jsonrpc":"2.0","id":null,"method":"ping"}`, status: 400, code: -32600},
		"a long id":         {body: `{"jsonrpc":"2.0","id":"` + strings.Repeat("x", 300) + `","method":"ping"}`, status: 400, code: -32600},
		"params as a list":  {body: `{"jsonrpc":"2.0","id":1,"method":"ping","params":[]}`, status: 400, code: -32600},
		"an unknown method": {body: `{"jsonrpc":"2.0","id":1,"method":"roots/steal"}`, status: 200, code: -32601},
		"a huge name": {body: `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"` +
			strings.Repeat("x", 1<<20) + `"}}`, status: 200, code: -32602},
		"arguments as a list": {body: `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"caps__echo",` +
			`"arguments":[]}}`, status: 200, code: -32602},
		"a huge message": {body: strings.Repeat(" ", 5<<20), status: 413, code: -32600},
		"a forged cursor": {body: `{"jsonrpc":"2.0","id":1,"method":"tools/list","params":{"cursor":"???"}}`, status: 200,
			code: -32602},
		"an unknown revision": {body: `{"jsonrpc":"2.0","id":1,"method":"ping"}`, status: 400, code: -32022,
			header: []string{"Mcp-Protocol-Version", "2024-01-01"}},
		"another method in the header": {body: `{"jsonrpc":"2.0","id":1,"method":"tools/list","params":{` + meta + `}}`,
			header: newest, status: 400, code: -32020},
		"another name in the header": {body: `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{` + meta +
			`,"name":"caps__fail"}}`, header: newest, status: 400, code: -32020},
		"a revision in the header alone": {body: `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{` +
			`"name":"caps__echo"}}`, header: newest, status: 400, code: -32602},
		"a revision in the body alone": {body: `{"jsonrpc":"2.0","id":1,"method":"tools/list","params":{` + meta + `}}`,
			status: 400, code: -32020},
		"a text": {body: `{"jsonrpc":"2.0","id":1,"method":"ping"}`, header: []string{"Content-Type", "text/plain"},
			status: 415, code: -32600},
	} {
		resp, text := f.post(t, c.body, c.header...)
		var answer struct {
			Error struct{ Code int }
		}
		if strings.Contains(name, "revision") && !strings.Contains(text, `"id":1`) {
			t.Errorf("%s: the answer is of another request: %s", name, text)
		}
		if err := json.Unmarshal([]byte(text), &answer); err != nil || resp.StatusCode != c.status ||
			answer.Error.Code != c.code {
			t.Errorf("%s: %d %s, %v", name, resp.StatusCode, text, err)
		}
	}
	resp, text := f.post(t, `{"jsonrpc":"2.0","id":1,"method":"ping"}`, "Origin", "https://evil.example")
	if resp.StatusCode != http.StatusForbidden {
		t.Errorf("a page of another site: %d %s", resp.StatusCode, text)
	}
	if len(f.capability.Seen()) > 0 {
		t.Errorf("%d calls", len(f.capability.Seen()))
	}
}

// TestMCPNames: a fleet may have another prefix, or none.
func TestMCPNames(t *testing.T) {
	t.Parallel()
	for prefix, want := range map[string]string{"my.tools": "my.tools__", "": ""} {
		f := startMCP(t, func(o *gatewaytest.Options) { o.MCP.Settings.Names = mcp.NewNames(map[string]string{"caps": prefix}) })
		s := f.session(t, revisions[0], nil)
		list, err := s.ListTools(t.Context(), nil)
		if err != nil || len(list.Tools) == 0 || list.Tools[0].Name != want+gatewaytest.Echo {
			t.Fatalf("%v %v", list, err)
		}
		if r, err := s.CallTool(t.Context(), &sdk.CallToolParams{Name: want + gatewaytest.Echo}); err != nil ||
			textOf(t, r) != "{}" {
			t.Errorf("%q: %v %v", prefix, r, err)
		}
		_, err = s.CallTool(t.Context(), &sdk.CallToolParams{Name: "caps__" + gatewaytest.Echo})
		if _, data := refusalOf(t, err); data["reason"] != "CAPABILITY_UNKNOWN" {
			t.Errorf("%q: %v", prefix, data)
		}
	}
}

// TestMCPSignIn: a client without a credential learns where it gets one, and the token of that issuer is one.
func TestMCPSignIn(t *testing.T) {
	t.Parallel()
	i := issuertest.Start(t)
	f := startMCP(t, func(o *gatewaytest.Options) {
		o.Authenticator = verifier(t, i)
		o.MCP.Settings.Issuers = []string{i.URL}
	})
	resp, _ := f.post(t, `{"jsonrpc":"2.0","id":1,"method":"tools/list"}`)
	challenge := resp.Header.Get("WWW-Authenticate")
	_, address, _ := strings.Cut(challenge, `resource_metadata="`)
	address, _, _ = strings.Cut(address, `"`)
	if resp.StatusCode != http.StatusUnauthorized || address != f.gateway.URL("/.well-known/oauth-protected-resource/mcp") {
		t.Fatalf("%d %q", resp.StatusCode, challenge)
	}
	for _, path := range []string{"/.well-known/oauth-protected-resource", "/.well-known/oauth-protected-resource/mcp"} {
		resp, text := getJSON(t, f.gateway, path)
		var metadata struct {
			Resource string
			Servers  []string `json:"authorization_servers"`
		}
		if err := json.Unmarshal([]byte(text), &metadata); err != nil || resp.StatusCode != 200 ||
			metadata.Resource != f.gateway.URL(mcp.Path) || !slices.Equal(metadata.Servers, []string{i.URL}) {
			t.Errorf("%d %s %v", resp.StatusCode, text, err)
		}
	}
	resp, text := f.post(t, `{"jsonrpc":"2.0","id":1,"method":"tools/list"}`, "Authorization", "Bearer forged.token.here")
	if challenge = resp.Header.Get("WWW-Authenticate"); resp.StatusCode != http.StatusUnauthorized ||
		!strings.Contains(challenge, `error="invalid_token"`) || !strings.Contains(challenge, "resource_metadata=") {
		t.Errorf("%d %q %s", resp.StatusCode, challenge, text)
	}
	for _, revision := range revisions {
		s := f.session(t, revision, nil, "Authorization", "Bearer "+i.Token(t, nil))
		if list, err := s.ListTools(t.Context(), nil); err != nil || len(list.Tools) == 0 {
			t.Errorf("%s: %v", revision, err)
		}
	}
}

// TestMCPSearch: a tenant with many tools gets two, which find and call the others that it may use.
func TestMCPSearch(t *testing.T) {
	t.Parallel()
	ring := newKeyring()
	f := startMCP(t, func(o *gatewaytest.Options) {
		o.Authenticator = ring.authenticator()
		o.MCP.Settings.Search = []string{"acme"}
	})
	for _, revision := range revisions {
		s := f.session(t, revision, nil, "X-Api-Key", ring.credentials["acme"])
		if list, err := s.ListTools(t.Context(), nil); err != nil || len(list.Tools) != 2 {
			t.Fatalf("%s: %+v %v", revision, list, err)
		}
		for query, want := range map[string]int{"Echo": 1, "hidden": 0, "does": 5, "": 0} {
			r, err := s.CallTool(t.Context(), &sdk.CallToolParams{Name: "search_tools",
				Arguments: map[string]any{"query": query}})
			if err != nil {
				t.Fatal(err)
			}
			var found struct{ Tools []struct{ Name string } }
			if err := json.Unmarshal([]byte(textOf(t, r)), &found); err != nil || len(found.Tools) != want ||
				query == "Echo" && found.Tools[0].Name != "caps__"+gatewaytest.Echo {
				t.Errorf("%s: %q: %s", revision, query, textOf(t, r))
			}
		}
		r, err := s.CallTool(t.Context(), &sdk.CallToolParams{Name: "call_tool", Arguments: map[string]any{
			"name": "caps__" + gatewaytest.Echo, "arguments": map[string]any{"a": 1}}})
		if err != nil || textOf(t, r) != `{"a":1}` {
			t.Errorf("%s: %+v %v", revision, r, err)
		}
		_, err = s.CallTool(t.Context(), &sdk.CallToolParams{Name: "call_tool", Arguments: map[string]any{
			"name": "caps__hidden"}})
		if _, data := refusalOf(t, err); data["reason"] != "TOOL_BLOCKED" {
			t.Errorf("%s: %v", revision, data)
		}
	}
	other := f.session(t, revisions[0], nil, "X-Api-Key", ring.credentials["globex"])
	if list, err := other.ListTools(t.Context(), nil); err != nil || len(list.Tools) != 5 {
		t.Errorf("%+v %v", list, err)
	}
}
