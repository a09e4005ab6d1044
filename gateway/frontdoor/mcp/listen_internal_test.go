package mcp

import (
	"net/http"
	"strings"
	"testing"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
)

// TestMessagesThatSayWhy: a subscription to something else than URIs, and a method of another revision, are refused
// with what the client can do.
func TestMessagesThatSayWhy(t *testing.T) {
	t.Parallel()
	const listens, meta = "subscriptions/listen", `"_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28",` +
		`"io.modelcontextprotocol/clientCapabilities":{}}`
	for _, c := range []struct{ version, method, params, want string }{
		{"2026-07-28", listens, meta + `,"notifications":{"resourceSubscriptions":"a"}`, "a list of URIs"},
		{"2026-07-28", listens, meta + `,"notifications":{"resourceSubscriptions":[5]}`, "a list of URIs"},
		{"2026-07-28", subscribeMethod, meta + `,"uri":"a"`, "it has subscriptions/listen"},
		{"2026-07-28", unsubscribeMethod, meta + `,"uri":"a"`, "it has subscriptions/listen"},
		{"2026-07-28", "logging/setLevel", meta + `,"level":"info"`, "logLevel in _meta"},
		{"2025-11-25", "subscriptions/listen", "", "send MCP-Protocol-Version: 2026-07-28"},
	} {
		m := &message{version: c.version, body: []byte(`{"jsonrpc":"2.0","id":1,"method":"` + c.method +
			`","params":{` + c.params + `}}`)}
		err := m.parse(http.Header{"Mcp-Protocol-Version": {c.version}, "Mcp-Method": {c.method}})
		if err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s of %s: %v", c.method, c.version, err)
		}
	}
	err := (&message{method: "server/discover"}).ownError(rpcError{Code: jsonrpc.CodeMethodNotFound})
	if !strings.Contains(err.Error(), "send MCP-Protocol-Version: 2026-07-28") {
		t.Error(err)
	}
}

// TestSubscriptionsWithoutSDK: the SDK serves only unusual subscriptions, and those that it refuses.
func TestSubscriptionsWithoutSDK(t *testing.T) {
	t.Parallel()
	const (
		meta = `"_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28",` +
			`"io.modelcontextprotocol/clientCapabilities":{}}`
		tools = `{"toolsListChanged":true}`
	)
	for name, c := range map[string]struct {
		params string
		header []string
		direct bool
		tools  bool
	}{
		"of tools":      {params: meta + `,"notifications":` + tools, direct: true, tools: true},
		"of prompts":    {params: meta + `,"notifications":{"promptsListChanged":true}`, direct: true},
		"of nothing":    {params: meta + `,"notifications":{"toolsListChanged":false}`, direct: true},
		"of a resource": {params: meta + `,"notifications":{"resourceSubscriptions":["a"]}`, direct: true},
		"of a number":   {params: meta + `,"notifications":{"toolsListChanged":1}`},
		"of null":       {params: meta + `,"notifications":null`},
		"without any":   {params: meta},
		"more params":   {params: meta + `,"notifications":` + tools + `,"x":{}`},
		"no version":    {params: `"_meta":{},"notifications":` + tools},
		"with a name":   {params: meta + `,"notifications":` + tools, header: []string{"Mcp-Name", "a"}},
	} {
		m := &message{version: "2026-07-28", body: []byte(`{"jsonrpc":"2.0","id":1,"method":"subscriptions/listen",` +
			`"params":{` + c.params + `}}`)}
		header := http.Header{"Mcp-Protocol-Version": {m.version}, "Mcp-Method": {"subscriptions/listen"}}
		for i := 0; i < len(c.header); i += 2 {
			header.Set(c.header[i], c.header[i+1])
		}
		if err := m.parse(header); err != nil {
			t.Errorf("%s: %v", name, err)
		}
		got := m.listens
		if (got != nil) != c.direct || got != nil && got.Params.Notifications.ToolsListChanged != c.tools {
			t.Errorf("%s: %+v", name, got)
		}
		if (m.params != nil) == c.direct {
			t.Errorf("%s: the SDK gets %s", name, m.params)
		}
	}
}
