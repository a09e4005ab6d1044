package cli

import (
	"context"
	"encoding/json"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/capgate/capgate/internal/testkit/check"
	"github.com/capgate/capgate/internal/testkit/clienttest"
)

// getAs returns the body of a page of a tenant.
func getAs(t *testing.T, public, key, path string) string {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "http://"+public+path, http.NoBody)
	check.Must(t, err)
	req.Header.Set("Authorization", "Bearer "+key)
	resp, err := clienttest.HTTP.Do(req)
	check.Must(t, err)
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	check.Must(t, err)
	return string(text)
}

// TestToolsets: toolsets of the configuration have the tools, prompts and resources of real MCP servers, for the
// callers of their tenants, until a reload changes them. Records have the names of the servers' tools.
func TestToolsets(t *testing.T) {
	t.Parallel()
	server, url := completingServer(t)
	features := featureServer(t, "two")
	server.AddTool(&sdk.Tool{Name: "forecast", Description: "Weather.", InputSchema: json.RawMessage(`{"type":"object",
		"properties":{"city":{"type":"string"},"units":{"type":"string"}},"required":["city","units"]}`)},
		func(_ context.Context, r *sdk.CallToolRequest) (*sdk.CallToolResult, error) {
			text := "got " + string(r.Params.Arguments)
			return &sdk.CallToolResult{Content: []sdk.Content{&sdk.TextContent{Text: text}}}, nil
		})
	keys, entries := map[string]string{}, map[string]string{}
	for _, tenant := range []string{"acme", "globex"} {
		keys[tenant], entries[tenant] = makeKey(t)
	}
	log := filepath.Join(t.TempDir(), "audit.log")
	config := func(toolsets string) string {
		return mcpConfig("policies: {}\naudit: {to: "+log+"}\n"+patientRedis("")+
			"\ntenants: [{id: acme, capabilities: ['*'], keys: ["+entries["acme"]+
			"]}, {id: globex, capabilities: [two], keys: ["+entries["globex"]+"]}]\n"+toolsets,
			mcpFleet("one", url, ""), mcpFleet("two", features, ""))
	}
	const greet = "{capability: two, tool: prompts/greet}, {capability: two, tool: 'l*'}"
	sets := "toolsets:\n- {name: mixed, tenants: [acme], tools: [{capability: one, tool: forecast, name: weather, " +
		"arguments: {units: metric}}, {capability: one, tool: gone}, " + greet +
		"]}\n- {name: mixed, tools: [{capability: '*'}]}\n"
	file := writeConfig(t, config(sets))
	p, public, _ := serve(t, nil, "--config", file)
	p.stderr.wait(t, p, "no tool of one matches gone")
	ask := func(tenant, method, params string) string {
		return postTo(t, public, keys[tenant], "/mcp/mixed",
			`{"jsonrpc":"2.0","id":1,"method":"`+method+`","params":`+params+`}`)
	}
	for _, c := range [][4]string{
		{"acme", "tools/list", `{}`, `"name":"weather"`}, {"acme", "prompts/list", `{}`, `"name":"two__greet"`},
		{"acme", "resources/list", `{}`, "two://text"}, {"globex", "tools/list", `{}`, `"name":"two__hello"`},
	} {
		check.Until(t, c[1], func() (bool, string) {
			text := ask(c[0], c[1], c[2])
			return strings.Contains(text, c[3]), text
		})
	}
	for _, c := range [][4]string{
		{"acme", "tools/list", `{}`, `"name":"two__link"`},
		{"acme", "tools/list", `{}`, `!two__hello`},
		{"acme", "tools/list", `{}`, `!units`},
		{"acme", "tools/call", `{"name":"weather","arguments":{"city":"Bonn"}}`,
			`got {\"city\":\"Bonn\",\"units\":\"metric\"}`},
		{"acme", "tools/call", `{"name":"weather","arguments":{"city":"Bonn","units":"x"}}`,
			`"reason":"ARGUMENTS_INVALID"`},
		{"acme", "tools/call", `{"name":"one__forecast","arguments":{"city":"Bonn"}}`, `_UNKNOWN"`},
		{"acme", "tools/call", `{"name":"two__hello"}`, `_UNKNOWN"`},
		{"acme", "tools/call", `{"name":"two__link"}`, `"uri":"both://text"`},
		{"acme", "resources/read", `{"uri":"both://text"}`, "both of two"},
		{"acme", "prompts/list", `{}`, `!secret`},
		{"acme", "prompts/get", `{"name":"two__greet"}`, "greet of two"},
		{"acme", "prompts/get", `{"name":"two__secret"}`, `"reason":"PROMPT_UNKNOWN"`},
		{"globex", "prompts/get", `{"name":"two__secret"}`, "secret of two"},
		{"globex", "tools/list", `{}`, `!forecast`},
		{"globex", "tools/call", `{"name":"weather","arguments":{"city":"Bonn"}}`, `_UNKNOWN"`},
	} {
		got := ask(c[0], c[1], c[2])
		if part, not := strings.CutPrefix(c[3], "!"); strings.Contains(got, part) == not {
			t.Errorf("%s %s of %s: %s\nwant %s", c[1], c[2], c[0], got, c[3])
		}
	}
	if list := getAs(t, public, keys["acme"], "/v0.1/servers"); !strings.Contains(list, "/toolset.mixed") ||
		!strings.Contains(list, "/mcp/mixed") {
		t.Errorf("the registry has %s", list)
	}
	check.Must(t, os.WriteFile(file, []byte(config("")), 0o600))
	check.Until(t, "the reload", func() (bool, string) {
		text := ask("acme", "tools/list", `{}`)
		return strings.Contains(text, "TOOLSET_UNKNOWN") && strings.Contains(text, `"id":1,`), text
	})
	p.stop(t)
	text, err := os.ReadFile(log)
	check.Must(t, err)
	if !strings.Contains(string(text), `"tool":"forecast"`) || strings.Contains(string(text), `"tool":"weather"`) {
		t.Errorf("the audit log has %s", text)
	}
}
