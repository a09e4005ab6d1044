package cli

import (
	"context"
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/capgate/capgate/internal/testkit/check"
	"github.com/capgate/capgate/internal/testkit/clienttest"
)

// featureServer returns a server with prompts and resources that name it.
func featureServer(t *testing.T, name string) (url string) {
	t.Helper()
	server, url := completingServer(t)
	addTool(server, "hello", func(context.Context, *sdk.CallToolRequest) (*sdk.CallToolResult, error) {
		return &sdk.CallToolResult{}, nil
	})
	for uri, read := range map[string]string{"both://text": "both", name + "://text": "own"} {
		server.AddResource(&sdk.Resource{Name: "text", URI: uri}, func(context.Context, *sdk.ReadResourceRequest) (
			*sdk.ReadResourceResult, error) {
			return &sdk.ReadResourceResult{Contents: []*sdk.ResourceContents{{URI: uri,
				Text: read + " of " + name}}}, nil
		})
	}
	addTool(server, "link", func(context.Context, *sdk.CallToolRequest) (*sdk.CallToolResult, error) {
		return &sdk.CallToolResult{Content: []sdk.Content{&sdk.ResourceLink{Name: "text", URI: "both://text"},
			&sdk.ResourceLink{Name: "page", URI: "https://example.com/page"}}}, nil
	})
	for _, prompt := range []string{"greet", "secret"} {
		server.AddPrompt(&sdk.Prompt{Name: prompt}, func(context.Context, *sdk.GetPromptRequest) (*sdk.GetPromptResult,
			error) {
			return &sdk.GetPromptResult{Messages: []*sdk.PromptMessage{{Role: "user",
				Content: &sdk.TextContent{Text: prompt + " of " + name}}}}, nil
		})
	}
	return url
}

// completingServer runs a server with completions.
func completingServer(t *testing.T) (server *sdk.Server, url string) {
	t.Helper()
	server = sdk.NewServer(&sdk.Implementation{Name: "features", Version: "1"}, &sdk.ServerOptions{
		CompletionHandler: func(_ context.Context, r *sdk.CompleteRequest) (*sdk.CompleteResult, error) {
			return &sdk.CompleteResult{Completion: sdk.CompletionResultDetails{
				Values: []string{r.Params.Argument.Value + "ing"}}}, nil
		},
	})
	web := httptest.NewServer(sdk.NewStreamableHTTPHandler(func(*http.Request) *sdk.Server { return server }, nil))
	t.Cleanup(func() {
		web.CloseClientConnections()
		web.Close()
	})
	return server, web.URL
}

// addTool adds a tool that takes any arguments.
func addTool(server *sdk.Server, name string, answer sdk.ToolHandler) {
	server.AddTool(&sdk.Tool{Name: name, Description: "of a test",
		InputSchema: json.RawMessage(`{"type":"object"}`)}, answer)
}

// askAs is askMCP of a tenant.
func askAs(t *testing.T, public, key, method, params string) string {
	t.Helper()
	return postTo(t, public, key, "/mcp", `{"jsonrpc":"2.0","id":1,"method":"`+method+`","params":`+params+`}`)
}

// postTo makes a request of a tenant.
func postTo(t *testing.T, public, key, path, body string) string {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, "http://"+public+path, strings.NewReader(body))
	check.Must(t, err)
	req.Header.Set("Content-Type", "application/json")
	req.Header.Set("Authorization", "Bearer "+key)
	resp, err := clienttest.HTTP.Do(req)
	check.Must(t, err)
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	check.Must(t, err)
	return string(text)
}

// featureGateway is a gateway with two MCP servers. acme sees one of them.
type featureGateway struct {
	*twoTenants
	log string // file of the audit log
}

func startFeatures(t *testing.T) *featureGateway {
	t.Helper()
	g := &featureGateway{&twoTenants{keys: map[string]string{}}, filepath.Join(t.TempDir(), "audit.log")}
	entries := map[string]string{}
	for _, tenant := range []string{"acme", "globex"} {
		g.keys[tenant], entries[tenant] = makeKey(t)
	}
	tenants := "tenants: [{id: acme, capabilities: [one], keys: [" + entries["acme"] +
		"]}, {id: globex, capabilities: ['*'], keys: [" + entries["globex"] + "]}]\n"
	g.program, g.public, g.admin = serve(t, nil, "--config", writeConfig(t, mcpConfig(
		"policies: {}\naudit: {to: "+g.log+"}\n"+patientRedis("")+"\n"+tenants,
		mcpFleet("one", featureServer(t, "one"), ""), mcpFleet("two", featureServer(t, "two"), ""))))
	for tenant, tool := range map[string]string{"acme": "one__hello", "globex": "two__hello"} {
		check.Until(t, "the tools", func() (bool, string) {
			list := askAs(t, g.public, g.keys[tenant], "tools/list", "{}")
			return strings.Contains(list, tool), list
		})
	}
	for list, features := range map[string][]string{"prompts/list": {"one__greet", "two__greet"},
		"resources/list": {"one://text", "two://text"}} {
		check.Until(t, "the first "+list, func() (bool, string) {
			text := askAs(t, g.public, g.keys["globex"], list, "{}")
			return strings.Contains(text, features[0]) && strings.Contains(text, features[1]), text
		})
	}
	return g
}

// want makes requests at /mcp and compares a part of each response; with !, the response must not have it.
func (g *featureGateway) want(t *testing.T, cases [][4]string) {
	t.Helper()
	for _, c := range cases {
		got := askAs(t, g.public, g.keys[c[0]], c[1], c[2])
		part, not := strings.CutPrefix(c[3], "!")
		if strings.Contains(got, part) == not {
			t.Errorf("%s %s of %s: %s\nwant %s", c[1], c[2], c[0], got, c[3])
		}
	}
}

// TestPromptsOfTenants: a caller lists and gets the prompts of the servers that its tenant may use and that policy
// does not hide, and calls of prompts are recorded as calls.
func TestPromptsOfTenants(t *testing.T) {
	t.Parallel()
	g := startFeatures(t)
	g.run(t, 0, "policy", "set", "one", "prompts/secret", "block", "--tenant", "acme")
	check.Until(t, "the rule", func() (bool, string) {
		text := askAs(t, g.public, g.keys["acme"], "prompts/list", "{}")
		return !strings.Contains(text, "secret") && strings.Contains(text, "one__greet"), text
	})
	const hidden = `"reason":"PROMPT_UNKNOWN"`
	ref := func(name string) string {
		return `{"ref":{"type":"ref/prompt","name":"` + name + `"},"argument":{"name":"a","value":"complet"}}`
	}
	g.want(t, [][4]string{
		{"acme", "prompts/list", `{}`, `"name":"one__greet"`},
		{"acme", "prompts/list", `{}`, `!two__greet`},
		{"acme", "prompts/list", `{"cursor":"x"}`, `"reason":"LIST_INVALID"`},
		{"acme", "prompts/get", `{"name":"one__greet"}`, `greet of one`},
		{"acme", "prompts/get", `{"name":"one__secret"}`, hidden},
		{"acme", "prompts/get", `{"name":"one__none"}`, hidden},
		{"acme", "prompts/get", `{"name":"two__greet"}`, hidden},
		{"acme", "completion/complete", ref("one__greet"), `"values":["completing"]`},
		{"acme", "completion/complete", ref("one__secret"), hidden},
		{"acme", "completion/complete", ref("two__greet"), hidden},
		{"globex", "prompts/list", `{}`, `"name":"one__secret"`},
		{"globex", "prompts/list", `{}`, `"name":"two__greet"`},
		{"globex", "prompts/get", `{"name":"one__secret"}`, `secret of one`},
		{"globex", "prompts/get", `{"name":"two__greet"}`, `greet of two`},
		{"globex", "tools/call", `{"name":"one__features/list","arguments":{}}`, `"reason":"TOOL_UNKNOWN"`},
		{"globex", "tools/call", `{"name":"one__completion/complete","arguments":` + ref("secret") + `}`,
			`"reason":"TOOL_UNKNOWN"`},
	})
	for tool, args := range map[string]string{"completion/complete": ref("secret"), "prompts/secret": `{}`,
		"resources/read": `{"uri":"both://text"}`, "features/list": `{}`} {
		want := `"reason":"MCP_REQUIRED"`
		if tool == "features/list" {
			want = `"reason":"TOOL_UNKNOWN"`
		}
		body := `{"tool_name":"` + tool + `","args":` + args + `}`
		if got := postTo(t, g.public, g.keys["globex"], "/v1/capabilities/one/invoke", body); !strings.Contains(got,
			want) {
			t.Errorf("%s over JSON: %s\nwant %s", tool, got, want)
		}
	}
	g.program.stop(t)
	text, err := os.ReadFile(g.log)
	check.Must(t, err)
	for _, tool := range []string{"prompts/greet", "prompts/secret", "completion/complete"} {
		if !strings.Contains(string(text), `"tool":"`+tool+`"`) {
			t.Errorf("no call of %s was recorded: %s", tool, text)
		}
	}
}

// TestResourcesOfTenants: a caller lists and reads the resources of the servers that its tenant may use. A URI that
// several of them have names its server, also in links.
func TestResourcesOfTenants(t *testing.T) {
	t.Parallel()
	g := startFeatures(t)
	read := func(uri string) string { return `{"uri":"` + uri + `"}` }
	const unknown, own = `"reason":"RESOURCE_UNKNOWN"`, `"uri":"both://text"`
	g.want(t, [][4]string{
		{"acme", "resources/list", `{}`, own},
		{"acme", "resources/list", `{}`, `!two://text`},
		{"acme", "resources/read", read("both://text"), `both of one`},
		{"acme", "resources/read", read("both://text"), own},
		{"acme", "resources/read", read("one://text"), `own of one`},
		{"acme", "resources/read", read("capgate:one:both://text"), `both of one`},
		{"acme", "resources/read", read("capgate:two:both://text"), unknown},
		{"acme", "resources/read", read("two://text"), unknown},
		{"acme", "tools/call", `{"name":"one__link","arguments":{}}`, own},
		{"globex", "resources/list", `{}`, `"uri":"capgate:one:both://text"`},
		{"globex", "resources/list", `{}`, `"uri":"two://text"`},
		{"globex", "resources/read", read("both://text"), unknown},
		{"globex", "resources/read", read("capgate:two:both://text"), `both of two`},
		{"globex", "resources/read", read("capgate:two:both://text"), `"uri":"capgate:two:both://text"`},
		{"globex", "tools/call", `{"name":"two__link","arguments":{}}`, `"uri":"capgate:two:both://text"`},
		{"globex", "tools/call", `{"name":"two__link","arguments":{}}`, `"uri":"https://example.com/page"`},
	})
	g.run(t, 0, "policy", "set", "two", "resources/read", "block", "--tenant", "globex")
	check.Until(t, "the rule", func() (bool, string) {
		text := askAs(t, g.public, g.keys["globex"], "resources/list", "{}")
		return !strings.Contains(text, "two") && strings.Contains(text, "one://text"), text
	})
	g.want(t, [][4]string{
		{"globex", "resources/list", `{}`, own},
		{"globex", "resources/read", read("both://text"), `both of one`},
		{"globex", "resources/read", read("capgate:two:both://text"), unknown},
	})
}
