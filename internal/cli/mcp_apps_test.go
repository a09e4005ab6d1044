package cli

import (
	"context"
	"encoding/json"
	"net/http"
	"strings"
	"testing"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/capgate/capgate/gateway/questions"
	"github.com/capgate/capgate/internal/testkit/check"
	"github.com/capgate/capgate/internal/testkit/clienttest"
)

// appServer returns a server with a tool that has an app, and tools that its app calls. The app is not listed, as the
// extension allows. Each tool returns its name, and whether its client declares that it shows apps.
func appServer(t *testing.T, name string) (url string) {
	t.Helper()
	server, url := completingServer(t)
	const uri = "ui://board/main?x=1"
	for tool, meta := range map[string]string{
		"show": `{"ui":{"resourceUri":"` + uri + `","other":1},"ui/resourceUri":"` + uri + `","more":"x"}`,
		"hostile": `{"ui":{"resourceUri":"ui://capgate/two/board/main"},` +
			`"ui/resourceUri":"capgate:two:ui://board/main"}`,
		"odd":     `{"ui":{"resourceUri":7,"visibility":"app"},"ui/resourceUri":null}`,
		name:      `{"ui":{"resourceUri":"` + uri + `","visibility":["app"]}}`,
		"refresh": `{"ui":{"visibility":["app"]}}`,
		"think":   `{"ui":{"visibility":["model"]}}`,
		"plain":   `{}`,
	} {
		var of sdk.Meta
		check.Must(t, json.Unmarshal([]byte(meta), &of))
		server.AddTool(&sdk.Tool{Name: tool, Description: tool, Meta: of,
			InputSchema: json.RawMessage(`{"type":"object"}`)},
			func(_ context.Context, r *sdk.CallToolRequest) (*sdk.CallToolResult, error) {
				text := tool + " of " + name
				if p := r.Session.InitializeParams(); p != nil && p.Capabilities != nil &&
					p.Capabilities.Extensions[questions.AppsExtension] != nil {
					text += " for apps"
				}
				return &sdk.CallToolResult{Content: []sdk.Content{&sdk.TextContent{Text: text}}}, nil
			})
	}
	server.AddResourceTemplate(&sdk.ResourceTemplate{Name: "apps", URITemplate: "ui://board/{+rest}"},
		func(_ context.Context, r *sdk.ReadResourceRequest) (*sdk.ReadResourceResult, error) {
			return &sdk.ReadResourceResult{Contents: []*sdk.ResourceContents{{URI: r.Params.URI,
				MIMEType: questions.AppType, Text: "<p>" + name + "</p>", Meta: sdk.Meta{"ui": map[string]any{
					"csp": map[string]any{"connectDomains": []string{"https://example.com"}}, "domain": "a.example",
					"permissions": map[string]any{"camera": map[string]any{}}}}}}}, nil
		})
	return url
}

// host connects a client that shows apps, or does not.
func host(t *testing.T, public, revision string, shows bool) *sdk.ClientSession {
	t.Helper()
	declared := &sdk.ClientCapabilities{}
	if shows {
		declared.AddExtension(questions.AppsExtension, map[string]any{"mimeTypes": []string{questions.AppType}})
	}
	s, err := sdk.NewClient(&sdk.Implementation{Name: "host", Version: "1"}, &sdk.ClientOptions{
		Capabilities: declared}).Connect(t.Context(), &sdk.StreamableClientTransport{
		Endpoint: "http://" + public + "/mcp", MaxRetries: -1, DisableStandaloneSSE: true,
		HTTPClient: &http.Client{Transport: clienttest.Bound(&http.Transport{DisableKeepAlives: true})}},
		&sdk.ClientSessionOptions{ProtocolVersion: revision})
	check.Must(t, err)
	t.Cleanup(func() { _ = s.Close() })
	return s
}

// TestApps: the app of a tool has a URI that leads to its server, whatever the server has written. Its contents are
// unchanged. Models do not see tools for apps, and an app calls those of its server by their own names. Servers learn
// whether the client of a call shows apps.
func TestApps(t *testing.T) {
	t.Parallel()
	_, public, _ := serve(t, nil, "--config", writeConfig(t, mcpConfig("", mcpFleet("one", appServer(t, "one"), ""),
		mcpFleet("two", appServer(t, "two"), ""))))
	check.Until(t, "the tools", func() (bool, string) {
		text := askMCP(t, public, "tools/list", "{}")
		return strings.Contains(text, "one__show") && strings.Contains(text, "two__show"), text
	})
	for _, revision := range []string{"2026-07-28", "2025-11-25"} {
		for _, shows := range []bool{true, false} {
			s := host(t, public, revision, shows)
			tools := map[string]string{}
			for tool, err := range s.Tools(t.Context(), nil) {
				check.Must(t, err)
				text, err := json.Marshal(tool.Meta)
				check.Must(t, err)
				tools[tool.Name] = string(text)
			}
			if _, listed := tools["one__refresh"]; listed != shows || tools["one__think"] == "" {
				t.Errorf("%s, apps %t: the tools for apps alone are listed: %t", revision, shows, listed)
			}
			const app = `"ui://capgate/one/board/main?x=1"`
			for tool, want := range map[string]string{
				"one__show": `{"more":"x","ui":{"other":1,"resourceUri":` + app + `},"ui/resourceUri":` + app + `}`,
				"one__hostile": `{"ui":{"resourceUri":"ui://capgate/one/capgate/two/board/main"},` +
					`"ui/resourceUri":"capgate:one:capgate:two:ui://board/main"}`,
				"one__odd":   `{"ui":{"resourceUri":7,"visibility":"app"},"ui/resourceUri":null}`,
				"one__plain": `null`,
			} {
				if tools[tool] != want {
					t.Errorf("%s: %s has %s, want %s", revision, tool, tools[tool], want)
				}
			}
			for _, of := range []string{"one", "two"} {
				uri := "ui://capgate/" + of + "/board/main?x=1"
				r, err := s.ReadResource(t.Context(), &sdk.ReadResourceParams{URI: uri})
				check.Must(t, err)
				text, err := json.Marshal(r.Contents)
				check.Must(t, err)
				if want := `[{"uri":"` + uri + `","mimeType":"text/html;profile=mcp-app","text":"\u003cp\u003e` + of +
					`\u003c/p\u003e","_meta":{"ui":{"csp":{"connectDomains":["https://example.com"]},` +
					`"domain":"a.example","permissions":{"camera":{}}}}}]`; string(text) != want {
					t.Errorf("%s: %s\nwant %s", revision, text, want)
				}
			}
			suffix := map[bool]string{true: " for apps"}[shows]
			for name, want := range map[string]string{
				"one__refresh": "refresh of one" + suffix,
				"one__plain":   "plain of one" + suffix,
				"two":          "two of two for apps", // only the app of one server knows it
				"refresh":      "",                    // tools of two servers
				"ui":           "",
			} {
				if name == "two" && !shows {
					want = ""
				}
				r, err := s.CallTool(t.Context(), &sdk.CallToolParams{Name: name})
				if (err == nil) != (want != "") {
					t.Errorf("%s, apps %t: %s: %v", revision, shows, name, err)
					continue
				}
				if err == nil && r.Content[0].(*sdk.TextContent).Text != want {
					t.Errorf("%s, apps %t: %s: %+v, want %s", revision, shows, name, r.Content[0], want)
				}
			}
		}
	}
}
