package mcp

import (
	"net/http"
	"testing"
)

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
		"of wrong URIs": {params: meta + `,"notifications":{"resourceSubscriptions":["a",1]}`},
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
