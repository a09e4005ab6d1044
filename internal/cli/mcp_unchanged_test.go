package cli

import (
	"bytes"
	"context"
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"sync"
	"testing"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/capgate/capgate/internal/testkit/check"
	"github.com/capgate/capgate/internal/testkit/clienttest"
)

// recorder stands before an MCP server and records its responses.
type recorder struct {
	url string

	mu    sync.Mutex
	tools map[string]map[string]any // by name, as in tools/list
	last  map[string]any            // the last result of tools/call
}

// record starts a recorder before a server.
func record(t *testing.T, server string) *recorder {
	t.Helper()
	at, err := url.Parse(server)
	check.Must(t, err)
	r := &recorder{tools: map[string]map[string]any{}}
	proxy := &httputil.ReverseProxy{FlushInterval: -1,
		Rewrite: func(p *httputil.ProxyRequest) {
			p.Out.URL.Scheme, p.Out.URL.Host, p.Out.URL.Path, p.Out.Host = at.Scheme, at.Host, at.Path, at.Host
			p.Out.Header.Del("Accept-Encoding")
		},
		ModifyResponse: func(resp *http.Response) error {
			resp.Body = &recordedBody{ReadCloser: resp.Body, to: r}
			return nil
		}}
	web := httptest.NewServer(proxy)
	t.Cleanup(func() {
		web.CloseClientConnections()
		web.Close()
	})
	r.url = web.URL
	return r
}

// recordedBody is a response whose lines are recorded as they arrive.
type recordedBody struct {
	io.ReadCloser
	to   *recorder
	text bytes.Buffer
}

func (b *recordedBody) Read(p []byte) (int, error) {
	n, err := b.ReadCloser.Read(p)
	if n == 0 { // the end may be read after the next result was recorded
		return n, err
	}
	b.text.Write(p[:n])
	for line := range strings.Lines(b.text.String()) {
		b.to.note(strings.TrimSpace(strings.TrimPrefix(line, "data:")))
	}
	return n, err
}

// note records a message.
func (r *recorder) note(text string) {
	var m struct {
		Result map[string]any `json:"result"`
	}
	if !strings.HasPrefix(text, "{") || decodeExactly(text, &m) != nil {
		return
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if list, ok := m.Result["tools"].([]any); ok {
		for _, one := range list {
			tool, _ := one.(map[string]any)
			name, _ := tool["name"].(string)
			r.tools[name] = tool
		}
	}
	if m.Result["content"] != nil || m.Result["structuredContent"] != nil {
		r.last = m.Result
	}
}

func decodeExactly(text string, into any) error {
	d := json.NewDecoder(strings.NewReader(text))
	d.UseNumber()
	return d.Decode(into)
}

// askStateless sends a request of 2026-07-28, and returns its result. meta holds further members of its _meta.
func askStateless(t *testing.T, public, method, name, params, meta string) map[string]any {
	t.Helper()
	body := `{"jsonrpc":"2.0","id":1,"method":"` + method + `","params":{` + params + `"_meta":{` + meta +
		`"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientCapabilities":{},` +
		`"io.modelcontextprotocol/clientInfo":{"name":"test","version":"1"}}}}`
	req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, "http://"+public+"/mcp",
		strings.NewReader(body))
	check.Must(t, err)
	for key, value := range map[string]string{"Content-Type": "application/json", "Mcp-Method": method,
		"Mcp-Protocol-Version": "2026-07-28", "Mcp-Name": name, "Accept": "application/json, text/event-stream"} {
		if value != "" {
			req.Header.Set(key, value)
		}
	}
	resp, err := clienttest.HTTP.Do(req)
	check.Must(t, err)
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	check.Must(t, err)
	return resultIn(t, string(text))
}

// resultIn returns the result in a response, which is JSON or events.
func resultIn(t *testing.T, response string) map[string]any {
	t.Helper()
	for line := range strings.Lines(response) {
		var m struct {
			Result map[string]any `json:"result"`
		}
		if decodeExactly(strings.TrimPrefix(line, "data:"), &m) == nil && m.Result != nil {
			return m.Result
		}
	}
	t.Fatalf("no result: %s", response)
	return nil
}

// askOld sends a request of 2025-03-26, and returns its result.
func askOld(t *testing.T, public, method, params string) map[string]any {
	t.Helper()
	return resultIn(t, askMCP(t, public, method, params))
}

// toolsNamed returns the tools of a result of tools/list by their names.
func toolsNamed(result map[string]any) map[string]map[string]any {
	all := map[string]map[string]any{}
	list, _ := result["tools"].([]any)
	for _, one := range list {
		tool, _ := one.(map[string]any)
		name, _ := tool["name"].(string)
		all[name] = tool
	}
	return all
}

// wantTools compares the tools of a server with those that clients of the gateway get.
func (r *recorder) wantTools(t *testing.T, prefix string, got map[string]map[string]any, old bool) {
	t.Helper()
	r.mu.Lock()
	defer r.mu.Unlock()
	if len(r.tools) == 0 {
		t.Errorf("%s: no tools", prefix)
	}
	for name, tool := range r.tools {
		one := got[prefix+"__"+name]
		for _, member := range []string{"title", "description", "icons", "annotations", "outputSchema", "inputSchema",
			"_meta"} {
			want := tool[member]
			if schema, ok := want.(map[string]any); ok && old && member == "outputSchema" &&
				schema["type"] != "object" {
				want = nil // before 2026-07-28, a result is an object
			}
			if member == "description" && want == nil {
				continue // the catalog requires one
			}
			if !reflect.DeepEqual(one[member], want) {
				t.Errorf("%s of %s__%s: %v\nwant %v", member, prefix, name, one[member], want)
			}
		}
	}
}

// wantResult calls a tool in both eras, and compares the result with the server's.
func (r *recorder) wantResult(t *testing.T, public, tool, args string) {
	t.Helper()
	params := `"name":"` + tool + `","arguments":` + args
	for form, ask := range map[string]func() map[string]any{
		"old": func() map[string]any { return askOld(t, public, "tools/call", "{"+params+"}") },
		"new": func() map[string]any { return askStateless(t, public, "tools/call", tool, params+",", "") },
		"streamed": func() map[string]any {
			return askStateless(t, public, "tools/call", tool, params+",", `"progressToken":1,`)
		},
	} {
		got, stateless := ask(), form != "old"
		withOwnURIs(got["content"], tool)
		r.mu.Lock()
		want := r.last
		r.mu.Unlock()
		for _, member := range []string{"content", "structuredContent", "isError"} {
			have := want[member]
			if have == false { // that is the default
				have = nil
			}
			if _, object := have.(map[string]any); member == "structuredContent" && !object && !stateless {
				have = nil // before 2026-07-28, it is an object
			}
			if !reflect.DeepEqual(got[member], have) {
				t.Errorf("%s of %s, %s: %v\nwant %v", member, tool, form, got[member], have)
			}
		}
		meta, _ := got["_meta"].(map[string]any)
		said, _ := want["_meta"].(map[string]any)
		delete(said, sdk.MetaKeyServerInfo)
		if info, _ := meta[sdk.MetaKeyServerInfo].(map[string]any); stateless && info["name"] != "capgate" {
			t.Errorf("%s: the result is of %v", tool, info)
		}
		delete(meta, sdk.MetaKeyServerInfo)
		if len(meta) != len(said) || len(meta) > 0 && !reflect.DeepEqual(meta, said) {
			t.Errorf("_meta of %s, %s: %v\nwant %v", tool, form, meta, said)
		}
	}
}

// withOwnURIs replaces the URIs that name a tool's server by those of the server: of several servers that a caller may
// read, each may have a resource with the URI.
func withOwnURIs(content any, tool string) {
	capability, _, _ := strings.Cut(tool, "__")
	items, _ := content.([]any)
	for _, item := range items {
		link, _ := item.(map[string]any)
		resource, _ := link["resource"].(map[string]any)
		for _, of := range []map[string]any{link, resource} {
			if uri, ok := of["uri"].(string); ok {
				of["uri"] = strings.TrimPrefix(uri, "capgate:"+capability+":")
			}
		}
	}
}

// fullServer returns a server of the Go SDK whose results are of every kind. It lists them as written here.
func fullServer(t *testing.T, stateless bool) (url string) {
	t.Helper()
	server := sdk.NewServer(&sdk.Implementation{Name: "full", Version: "1"}, nil)
	no := false
	notes := &sdk.Annotations{Audience: []sdk.Role{"user"}, Priority: 0.5}
	for name, result := range map[string]*sdk.CallToolResult{
		"both": {Content: []sdk.Content{&sdk.TextContent{Text: "def f():\n  pass"}},
			StructuredContent: map[string]any{"content": "def f():\n  pass"}},
		"list":  {Content: []sdk.Content{&sdk.TextContent{Text: "[1]"}}, StructuredContent: []int{1}},
		"texts": {Content: []sdk.Content{&sdk.TextContent{Text: "a"}, &sdk.TextContent{Text: "b"}, &sdk.TextContent{}}},
		"noted": {Meta: sdk.Meta{"example.com/n": json.Number("9007199254740993")},
			Content: []sdk.Content{&sdk.TextContent{Text: "a", Annotations: notes,
				Meta: sdk.Meta{"example.com/k": "v"}}}},
		"kinds": {StructuredContent: map[string]any{"n": 1}, Content: []sdk.Content{
			&sdk.ImageContent{Data: []byte("i"), MIMEType: "image/png", Annotations: notes},
			&sdk.AudioContent{Data: []byte("a"), MIMEType: "audio/wav"},
			&sdk.ResourceLink{URI: "file:///a", Name: "a", Title: "A"},
			&sdk.EmbeddedResource{Resource: &sdk.ResourceContents{URI: "file:///b", Text: "b"}}}},
		"looks": {Content: []sdk.Content{&sdk.TextContent{Text: "x"}},
			StructuredContent: map[string]any{"content": []any{}}},
		"fails": {IsError: true, StructuredContent: map[string]any{"code": 7}, Meta: sdk.Meta{"example.com/why": "w"},
			Content: []sdk.Content{&sdk.TextContent{Text: "one"},
				&sdk.ImageContent{Data: []byte("i"), MIMEType: "image/png"}}},
		"empty": {Meta: sdk.Meta{"example.com/k": map[string]any{"a": []any{}}}, Content: []sdk.Content{}},
	} {
		server.AddTool(&sdk.Tool{Name: name, Title: "The " + name, Description: "d", InputSchema: json.RawMessage(
			`{"type":"object"}`), Meta: sdk.Meta{"example.com/tool": name, "a": []any{1, nil}},
			Icons:       []sdk.Icon{{Source: "data:,x", MIMEType: "image/png", Sizes: []string{"48x48"}}},
			Annotations: &sdk.ToolAnnotations{ReadOnlyHint: true, OpenWorldHint: &no, Title: "T"}},
			func(context.Context, *sdk.CallToolRequest) (*sdk.CallToolResult, error) { return result, nil })
	}
	addTool(server, "plain", func(context.Context, *sdk.CallToolRequest) (*sdk.CallToolResult, error) {
		return &sdk.CallToolResult{Content: []sdk.Content{&sdk.TextContent{Text: "p"}}}, nil
	})
	server.AddTool(&sdk.Tool{Name: "typed", Description: "d", InputSchema: json.RawMessage(`{"type":"object"}`),
		OutputSchema: json.RawMessage(`{"type":"object","properties":{"n":{"type":"integer"}}}`)},
		func(context.Context, *sdk.CallToolRequest) (*sdk.CallToolResult, error) {
			return &sdk.CallToolResult{Content: []sdk.Content{&sdk.TextContent{Text: "n is 1"}},
				StructuredContent: map[string]any{"n": 1}}, nil
		})
	web := httptest.NewServer(sdk.NewStreamableHTTPHandler(func(*http.Request) *sdk.Server { return server },
		&sdk.StreamableHTTPOptions{Stateless: stateless}))
	t.Cleanup(func() {
		web.CloseClientConnections()
		web.Close()
	})
	return web.URL
}

// TestMCPServersArriveUnchanged: tools and results of MCP servers in TypeScript, Python and Go reach clients of
// both eras unchanged: with title, icons, annotations, schema and _meta, and with texts beside structured
// content. Nothing is added.
func TestMCPServersArriveUnchanged(t *testing.T) {
	t.Parallel()
	files := t.TempDir()
	file := filepath.Join(files, "a.py")
	check.Must(t, os.WriteFile(file, []byte("def f():\n  pass"), 0o600))
	_, everything := nodeServer(t, "@modelcontextprotocol/server-everything/dist/index.js", "streamableHttp")
	_, bridged := nodeServer(t, "mcp-proxy/dist/bin/mcp-proxy.mjs", "--host", "127.0.0.1", "--port", "0", "--",
		installed(t, "node", "node_modules", nodeBinary(), "bin", "node"),
		installed(t, "node", "node_modules", "@modelcontextprotocol", "server-filesystem", "dist", "index.js"), files)
	_, python := realServer(t, nil, installed(t, "venv", "bin", "python"),
		filepath.Join("testdata", "mcp", "server.py"))
	servers := map[string]*recorder{"everything": record(t, everything), "files": record(t, bridged),
		"python": record(t, python), "new": record(t, fullServer(t, true)), "old": record(t, fullServer(t, false))}
	var fleets []string
	for name, r := range servers {
		fleets = append(fleets, mcpFleet(name, r.url, ""))
	}
	p, public, _ := serve(t, nil, "--config", writeConfig(t, mcpConfig("", fleets...)))
	waitTools(t, public, "everything__echo", "files__read_text_file", "python__add", "new__plain", "old__plain")
	for name, r := range servers {
		r.wantTools(t, name, toolsNamed(askOld(t, public, "tools/list", "{}")), true)
		r.wantTools(t, name, toolsNamed(askStateless(t, public, "tools/list", "", "", "")), false)
	}
	for _, era := range []string{"new", "old"} {
		for _, tool := range []string{"both", "list", "texts", "noted", "kinds", "looks", "fails", "empty", "plain",
			"typed"} {
			servers[era].wantResult(t, public, era+"__"+tool, "{}")
		}
	}
	for tool, args := range map[string]string{"echo": `{"message":"hi"}`,
		"get-structured-content": `{"location":"Chicago"}`,
		"get-annotated-message":  `{"messageType":"error","includeImage":true}`, "get-tiny-image": "{}",
		"get-resource-links": `{"count":2}`, "get-resource-reference": `{"resourceType":"Text","resourceId":1}`} {
		servers["everything"].wantResult(t, public, "everything__"+tool, args)
	}
	servers["files"].wantResult(t, public, "files__read_text_file", `{"path":"`+file+`"}`)
	servers["files"].wantResult(t, public, "files__read_text_file", `{"path":"/etc/passwd"}`)
	servers["python"].wantResult(t, public, "python__add", `{"a":1,"b":2}`)
	servers["python"].wantResult(t, public, "python__picture", "{}")
	p.stop(t)
}
