package cli

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/capgate/capgate/internal/testkit/check"
)

// clientRun is the report of a real client of the gateway. The programs are in testdata/mcp.
type clientRun struct {
	Version   string
	Tools     []string
	Echo      map[string]string
	Refused   []any // code and reason
	Failed    bool  // the tool's own error
	Wrong     []any // isError, and the content, of a result that does not match the schema
	Count     string
	Progress  [][3]any // progress, total, message
	Cancelled bool

	Page     []string // mode of the elicitation, and the page without its fragment
	Required int      // error with the page, before 2026-07-28
	Elicited map[string]string
	Held     map[string]string

	Task       string            `json:"task"` // start of its id
	TaskStatus string            `json:"task status"`
	TaskResult map[string]string `json:"task result"`
}

// TestMCPClients: the MCP SDKs for TypeScript and Python work with the gateway, in old and new revisions:
// tools, rejections, progress, cancellation, and approvals by elicitation, as a task, and without the client's
// help.
func TestMCPClients(t *testing.T) {
	t.Parallel()
	node := installed(t, "node", "node_modules", nodeBinary(), "bin", "node")
	python := installed(t, "venv", "bin", "python")
	for name, c := range map[string]struct {
		program, script, mode, version string
		tasks                          bool
	}{
		"TypeScript": {program: node, script: "client.mjs", mode: "2026-07-28", version: "2026-07-28",
			tasks: true},
		"TypeScript legacy": {program: node, script: "client.mjs", mode: "legacy", version: "2025-11-25"},
		"TypeScript 1":      {program: node, script: "client.mjs", mode: "sdk", version: "2025-11-25"},
		"Python": {program: python, script: "client.py", mode: "2026-07-28", version: "2026-07-28",
			tasks: true},
		"Python legacy": {program: python, script: "client.py", mode: "legacy", version: "2025-11-25"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			public, admin, blocked := startForClients(t)
			dir := beside(t) // where node finds its packages
			script, err := os.ReadFile(filepath.Join("testdata", "mcp", c.script))
			check.Must(t, err)
			put(t, dir, c.script, string(script))
			out := tells(t, dir, c.program, c.script, "http://"+public+"/mcp", "http://"+admin, c.mode)
			var got clientRun
			check.Must(t, json.Unmarshal([]byte(out), &got))
			want := clientRun{Version: c.version, Tools: []string{"ask__block", "ask__count", "ask__echo", "ask__fail",
				"ask__wrong", "block", "count", "echo", "fail", "wrong"}, Echo: map[string]string{"text": "hi"},
				Refused: []any{-32602.0, "TOOL_UNKNOWN"}, Failed: true, Wrong: []any{true, "text", "image"},
				Count: "done", Progress: [][3]any{{1.0, 3.0, "one"}, {2.0, 3.0, "two"}, {3.0, 3.0, "three"}},
				Cancelled: true, Page: []string{"url", "https://gate.example/inbox"},
				Elicited: map[string]string{"text": "page"}, Held: map[string]string{"text": "held"}}
			if c.version != "2026-07-28" {
				want.Required = -32042
			}
			if c.tasks {
				want.Task, want.TaskStatus, want.TaskResult = "apr_", "completed", map[string]string{"text": "task"}
			}
			if !reflect.DeepEqual(got, want) {
				t.Errorf("%+v\nwant %+v", got, want)
			}
			if err := check.Received(t, blocked, "the end of the held call"); !errors.Is(err, context.Canceled) {
				t.Errorf("the call that the client cancelled ended at its backend with %v", err)
			}
		})
	}
}

// startForClients runs a gateway in front of an MCP server, whose tools it has twice: as they are, and with
// approval. blocked receives the end of a call of the tool block.
func startForClients(t *testing.T) (public, admin string, blocked chan error) {
	t.Helper()
	blocked = make(chan error, 1)
	server := sdk.NewServer(&sdk.Implementation{Name: "clients", Version: "1"}, nil)
	type text struct {
		Text string `json:"text"`
	}
	sdk.AddTool(server, &sdk.Tool{Name: "echo", Description: "answers with its arguments"},
		func(_ context.Context, _ *sdk.CallToolRequest, in text) (*sdk.CallToolResult, text, error) {
			return nil, in, nil
		})
	addTool(server, "fail", func(context.Context, *sdk.CallToolRequest) (*sdk.CallToolResult, error) {
		return &sdk.CallToolResult{IsError: true, Content: []sdk.Content{&sdk.TextContent{Text: "failed"}}}, nil
	})
	server.AddTool(&sdk.Tool{Name: "wrong", Description: "d", InputSchema: map[string]any{"type": "object"},
		OutputSchema: map[string]any{"type": "object", "required": []string{"n"}}},
		func(context.Context, *sdk.CallToolRequest) (*sdk.CallToolResult, error) {
			return &sdk.CallToolResult{Content: []sdk.Content{
				&sdk.ImageContent{Data: []byte("x"), MIMEType: "image/png"}},
				StructuredContent: map[string]any{"m": 1}}, nil
		})
	addTool(server, "count", func(ctx context.Context, r *sdk.CallToolRequest) (*sdk.CallToolResult, error) {
		for i, message := range []string{"one", "two", "three"} {
			_ = r.Session.NotifyProgress(ctx,
				&sdk.ProgressNotificationParams{ProgressToken: r.Params.GetProgressToken(), Progress: float64(i + 1),
					Total: 3, Message: message})
		}
		return &sdk.CallToolResult{Content: []sdk.Content{&sdk.TextContent{Text: "done"}}}, nil
	})
	addTool(server, "block", func(ctx context.Context, r *sdk.CallToolRequest) (*sdk.CallToolResult, error) {
		_ = r.Session.NotifyProgress(ctx, &sdk.ProgressNotificationParams{ProgressToken: r.Params.GetProgressToken(),
			Progress: 1})
		<-ctx.Done()
		blocked <- ctx.Err()
		return nil, ctx.Err()
	})
	web := httptest.NewServer(sdk.NewStreamableHTTPHandler(func(*http.Request) *sdk.Server { return server },
		&sdk.StreamableHTTPOptions{Stateless: true, PropagateRequestCancellation: true}))
	t.Cleanup(func() {
		web.CloseClientConnections()
		web.Close()
	})
	key := writeConfig(t, base64.StdEncoding.EncodeToString(make([]byte, 32)))
	asks := strings.Replace(mcpFleet("ask", web.URL, ""), "policy: allow", "policy: ask", 1)
	_, public, admin = serve(t, nil, "--config", writeConfig(t, mcpConfig("public_url: https://gate.example\n"+
		"secret_file: "+key, mcpFleet("plain", web.URL, "name: none"), asks)))
	waitTools(t, public, "echo", "ask__echo")
	return public, admin, blocked
}
