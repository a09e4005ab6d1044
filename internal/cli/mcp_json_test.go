package cli

import (
	"bytes"
	"context"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"strings"
	"testing"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/capgate/capgate/internal/call"
	"github.com/capgate/capgate/internal/testkit/check"
	"github.com/capgate/capgate/internal/testkit/clienttest"
	"github.com/capgate/capgate/internal/testkit/gatewaytest"
)

// onJSON makes a request of a tenant at the JSON API.
func (g *featureGateway) onJSON(t *testing.T, tenant, method, path, body string, header ...string) (*http.Response,
	string) {
	t.Helper()
	return clienttest.Send(t, clienttest.HTTP, method, "http://"+g.public+"/v1/capabilities/"+path, body,
		append([]string{"Authorization", "Bearer " + g.keys[tenant]}, header...)...)
}

// wantJSON makes requests and compares the statuses and a part of each response; with !, the response must not have it.
func (g *featureGateway) wantJSON(t *testing.T, cases [][5]string) {
	t.Helper()
	for _, c := range cases {
		method, path, _ := strings.Cut(c[1], " ")
		resp, got := g.onJSON(t, c[0], method, path, c[2])
		part, not := strings.CutPrefix(c[4], "!")
		if resp.Status[:3] != c[3] || strings.Contains(got, part) == not {
			t.Errorf("%s %s of %s: %s %s\nwant %s %s", c[1], c[2], c[0], resp.Status, got, c[3], c[4])
		}
	}
}

// TestPromptsOverJSON: a caller lists and gets over JSON the prompts that it gets over MCP. They are calls for
// policies, approvals and records, and other ways to call them are refused.
func TestPromptsOverJSON(t *testing.T) {
	t.Parallel()
	g := startFeatures(t)
	g.run(t, 0, "policy", "set", "one", "prompts/secret", "block", "--tenant", "acme")
	g.run(t, 0, "policy", "set", "two", "prompts/greet", "ask", "--tenant", "globex")
	check.Until(t, "the rules", func() (bool, string) {
		_, acme := g.onJSON(t, "acme", "GET", "one/prompts", "")
		resp, text := g.onJSON(t, "globex", "POST", "two/prompts/greet", "")
		return !strings.Contains(acme, "secret") && resp.StatusCode == http.StatusAccepted, acme + text
	})
	const hidden, unknown, mcp = `"reason":"PROMPT_UNKNOWN"`, `"reason":"CAPABILITY_UNKNOWN"`, `"reason":"MCP_REQUIRED"`
	g.wantJSON(t, [][5]string{
		{"acme", "GET one/prompts", "", "200", `{"next_page_token":"","prompts":[{"name":"greet"}]}`},
		{"acme", "GET two/prompts", "", "404", unknown},
		{"acme", "GET none/prompts", "", "404", unknown},
		{"acme", "GET one/prompts?page_size=x", "", "400", `"reason":"INVALID_QUERY"`},
		{"acme", "GET one/prompts?x=1", "", "200", "greet"}, // like other lists
		{"acme", "GET one/tools?x=1", "", "200", "hello"},
		{"acme", "GET one/prompts?page_size=201", "", "400", `"reason":"LIST_INVALID"`},
		{"acme", "GET one/prompts?page_token=x", "", "400", `"reason":"LIST_INVALID"`},
		{"acme", "POST one/prompts/greet", "", "200", `{"messages":[{"content":{"type":"text","text":"greet of one"}`},
		{"acme", "POST one/prompts/greet", "{}", "200", "greet of one"},
		{"acme", "POST one/prompts/greet?session_id=s", "{}", "200", "greet of one"},
		{"acme", "POST one/prompts/greet", "[]", "400", `"reason":"INVALID_BODY"`},
		{"acme", "POST one/prompts/greet", "[1]", "400", "the arguments of the prompt"},
		{"acme", "POST one/prompts/greet", `{"a":1}`, "400", `"pointer":"/a"`},
		{"acme", "POST one/prompts/greet", `{"a":"1","a":"2"}`, "400", `"reason":"AMBIGUOUS_ARGUMENTS"`},
		{"acme", "POST one/prompts/secret", "", "404", hidden},
		{"acme", "POST one/prompts/none", "", "404", hidden},
		{"acme", "POST one/prompts/" + strings.Repeat("x", 129), "", "404", hidden},
		{"acme", "POST one/prompts/gr%C3%A9et", "", "404", hidden},
		{"acme", "POST one/prompts/a/b%2Fc%20d", "", "404", hidden},
		{"acme", "POST one/prompts", "", "405", `it supports GET, HEAD, OPTIONS`},
		{"acme", "POST one/prompts/", "", "404", `"reason":"NO_SUCH_PATH"`},
		{"acme", "GET one/prompts/greet", "", "405", `"reason":"METHOD_NOT_ALLOWED"`},
		{"acme", "POST two/prompts/greet", "", "404", unknown},
		{"globex", "GET two/prompts?page_size=1", "", "200", `"prompts":[{"name":"greet"}]`},
		{"globex", "POST one/prompts/secret", "", "200", "secret of one"},
		{"globex", "POST two/prompts/greet", "", "202", `"approval_id":"apr_`},
		// The other ways do not check what the routes do.
		{"globex", "POST one/invoke", `{"tool_name":"prompts/greet"}`, "400", mcp},
		{"globex", "POST one/invoke", `{"tool_name":"resources/read","args":{"uri":"one://text"}}`, "400", mcp},
		{"globex", "POST one/invoke", `{"tool_name":"completion/complete"}`, "400", mcp},
		{"globex", "POST one/invoke", `{"tool_name":"features/list"}`, "404", `"reason":"TOOL_UNKNOWN"`},
	})
	resp, err := http.Post("http://"+g.public+"/v1/capabilities/one/prompts/greet", "application/json", nil)
	check.Must(t, err)
	check.Must(t, resp.Body.Close())
	list, err := http.Get("http://" + g.public + "/v1/capabilities/one/prompts")
	check.Must(t, err)
	check.Must(t, list.Body.Close())
	if resp.StatusCode != http.StatusUnauthorized || list.StatusCode != http.StatusUnauthorized {
		t.Errorf("without a credential: %s, %s", resp.Status, list.Status)
	}
	g.program.stop(t)
	text, err := os.ReadFile(g.log)
	check.Must(t, err)
	for _, tool := range []string{"prompts/greet", "prompts/secret"} {
		if !strings.Contains(string(text), `"tool":"`+tool+`"`) {
			t.Errorf("no call of %s was recorded: %s", tool, text)
		}
	}
}

// TestResourcesOverJSON: a caller lists and reads over JSON the resources that it reads over MCP, by the URIs of the
// server, as JSON or as bytes.
func TestResourcesOverJSON(t *testing.T) {
	t.Parallel()
	g := startFeatures(t)
	read := func(uri string) string { return "GET one/resources/read?uri=" + url.QueryEscape(uri) }
	const unknown, query = `"reason":"RESOURCE_UNKNOWN"`, `"reason":"INVALID_QUERY"`
	g.wantJSON(t, [][5]string{
		{"acme", "GET one/resources", "", "200", `"uri":"both://text"`},
		{"acme", "GET one/resources", "", "200", `"uri":"one://text"`},
		{"acme", "GET one/resources/templates", "", "200", `{"next_page_token":"","templates":[]}`},
		{"acme", "GET two/resources", "", "404", `"reason":"CAPABILITY_UNKNOWN"`},
		{"acme", read("both://text"), "", "200", `{"contents":[{"uri":"both://text","text":"both of one"}]}`},
		{"globex", read("both://text"), "", "200", `{"contents":[{"uri":"both://text","text":"both of one"}]}`},
		{"acme", read("two://text"), "", "404", unknown},
		{"acme", read("capgate:one:both://text"), "", "404", unknown},
		{"acme", "GET one/resources/read", "", "400", "it has no uri"},
		{"acme", read(""), "", "400", query},
		{"acme", read("text"), "", "400", query},
		{"acme", read("one://te xt"), "", "400", query},
		{"acme", read("one://te\x00xt"), "", "400", query},
		{"acme", read("one://\xff"), "", "400", query},
		{"acme", read("one://" + strings.Repeat("x", 2048)), "", "400", query},
		{"acme", read("one://text") + "&uri=two%3A%2F%2Ftext", "", "400", query},
		{"acme", read("one://text") + "&URI=x", "", "400", query},
		{"acme", read("one://text") + "&%zz", "", "400", query},
		{"acme", "GET two/resources/read?uri=two%3A%2F%2Ftext", "", "404", `"reason":"CAPABILITY_UNKNOWN"`},
		{"acme", "POST one/resources/read", "{}", "405", `"reason":"METHOD_NOT_ALLOWED"`},
	})
	g.run(t, 0, "policy", "set", "one", "resources/read", "block", "--tenant", "acme")
	check.Until(t, "the rule", func() (bool, string) {
		_, text := g.onJSON(t, "acme", "GET", "one/resources", "")
		return !strings.Contains(text, "one://text"), text
	})
	g.wantJSON(t, [][5]string{
		{"acme", read("one://text"), "", "404", unknown},
		{"acme", read("one://none"), "", "404", unknown},
		{"globex", read("one://text"), "", "200", "own of one"},
	})
}

// TestServersWithoutFeatures: at a server without resources, every resource is unknown, over JSON and over MCP. Prompts
// are alike, even if the server lists them and then lacks the method. The error of a prompt without a required argument
// has a reason.
func TestServersWithoutFeatures(t *testing.T) {
	t.Parallel()
	server, url := completingServer(t)
	server.AddPrompt(&sdk.Prompt{Name: "greet", Arguments: []*sdk.PromptArgument{{Name: "who", Required: true}}},
		func(context.Context, *sdk.GetPromptRequest) (*sdk.GetPromptResult, error) {
			return nil, &jsonrpc.Error{Code: jsonrpc.CodeInvalidParams, Message: "MCP error -32602: who is missing"}
		})
	none := &jsonrpc.Error{Code: jsonrpc.CodeMethodNotFound, Message: "x"}
	server.AddPrompt(&sdk.Prompt{Name: "gone"}, func(context.Context, *sdk.GetPromptRequest) (*sdk.GetPromptResult,
		error) {
		return nil, none
	})
	server.AddResource(&sdk.Resource{Name: "gone", URI: "gone:x"}, func(context.Context, *sdk.ReadResourceRequest) (
		*sdk.ReadResourceResult, error) {
		return nil, none
	})
	_, public, _ := serve(t, nil, "--config", writeConfig(t, mcpConfig("", mcpFleet("one", url, ""),
		mcpFleet("two", toolServer(t), ""))))
	base := "http://" + public + "/v1/capabilities/"
	for list, want := range map[string]string{"one/prompts": "greet", "two/prompts": `"prompts":[]`} {
		check.Until(t, list, func() (bool, string) {
			_, text := clienttest.Send(t, clienttest.HTTP, "GET", base+list, "")
			return strings.Contains(text, want), text
		})
	}
	for _, c := range [][3]string{
		{"GET two/resources/read?uri=a:b", "404", `"reason":"RESOURCE_UNKNOWN"`},
		{"POST two/prompts/greet", "404", `"reason":"PROMPT_UNKNOWN"`},
		{"GET one/resources/read?uri=gone:x", "404", `"reason":"RESOURCE_UNKNOWN"`},
		{"POST one/prompts/gone", "404", `"reason":"PROMPT_UNKNOWN"`},
		{"POST one/prompts/greet", "400", `"reason":"ARGUMENTS_INVALID"`},
		{"POST one/prompts/greet", "400", `arguments: MCP error -32602: who is missing"`},
	} {
		method, path, _ := strings.Cut(c[0], " ")
		resp, text := clienttest.Send(t, clienttest.HTTP, method, base+path, "")
		if resp.Status[:3] != c[1] || !strings.Contains(text, c[2]) {
			t.Errorf("%s: %s %s", c[0], resp.Status, text)
		}
	}
	for params, want := range map[string]string{
		`resources/read","params":{"uri":"capgate:two:a:b"}`: `"reason":"RESOURCE_UNKNOWN"`,
		`resources/read","params":{"uri":"gone:x"}`:          `"reason":"RESOURCE_UNKNOWN"`,
		`prompts/get","params":{"name":"two__greet"}`:        `"reason":"PROMPT_UNKNOWN"`,
		`prompts/get","params":{"name":"one__gone"}`:         `"reason":"PROMPT_UNKNOWN"`,
		`prompts/get","params":{"name":"one__greet"}`:        `"reason":"ARGUMENTS_INVALID"`,
	} {
		_, text := clienttest.Send(t, clienttest.HTTP, "POST", "http://"+public+"/mcp",
			`{"jsonrpc":"2.0","id":1,"method":"`+params+`}`, "Content-Type", "application/json")
		if !strings.Contains(text, want) {
			t.Errorf("%s: %s", params, text)
		}
	}
}

// toolServer runs a server with a tool alone.
func toolServer(t *testing.T) (url string) {
	t.Helper()
	server := sdk.NewServer(&sdk.Implementation{Name: "tools", Version: "1"}, nil)
	addTool(server, "hello", func(context.Context, *sdk.CallToolRequest) (*sdk.CallToolResult, error) {
		return &sdk.CallToolResult{}, nil
	})
	only := sdk.NewStreamableHTTPHandler(func(*http.Request) *sdk.Server { return server }, nil)
	web := httptest.NewServer(only)
	t.Cleanup(func() {
		web.CloseClientConnections()
		web.Close()
	})
	return web.URL
}

// contentServer returns a server with resources of many kinds.
func contentServer(t *testing.T, large []byte) (url string) {
	t.Helper()
	server, url := completingServer(t)
	add := func(uri string, all ...*sdk.ResourceContents) {
		for _, c := range all {
			c.URI = uri
		}
		server.AddResource(&sdk.Resource{Name: uri, URI: uri}, func(context.Context, *sdk.ReadResourceRequest) (
			*sdk.ReadResourceResult, error) {
			return &sdk.ReadResourceResult{Contents: all}, nil
		})
	}
	add("file:///pictures/logo.png", &sdk.ResourceContents{MIMEType: "image/png", Blob: large})
	add("file:///a/../b%2Fc", &sdk.ResourceContents{Text: "dots"})
	add("urn:x:y?z#f&g=h+i", &sdk.ResourceContents{MIMEType: "text/html;profile=mcp-app", Text: "<p>é</p>"})
	add("data:,x", &sdk.ResourceContents{MIMEType: "application/json", Text: `{"a":1}`})
	add("two:contents", &sdk.ResourceContents{MIMEType: "text/plain", Text: "1"},
		&sdk.ResourceContents{MIMEType: "text/plain", Text: "2"})
	for i := range manyResources {
		add(fmt.Sprintf("many:%04d", i), &sdk.ResourceContents{Text: "x"})
	}
	return url
}

const manyResources = 450

// TestContentsOverJSON: a resource is read as JSON, or as its bytes if the client prefers their type. A browser does
// not run them. Its URI may have any form, and a long list has pages. Other capabilities have no resources.
func TestContentsOverJSON(t *testing.T) {
	t.Parallel()
	large := bytes.Repeat([]byte{0, 255, 7, '"'}, 1<<19+1)
	caps := gatewaytest.NewCapability("b").Serve(t, call.Doc).Addr
	_, public, _ := serve(t, nil, "--config", writeConfig(t, mcpConfig("",
		mcpFleet("one", contentServer(t, large), ""), mcpFleet("down", "http://127.0.0.1:1", ""),
		"  - {capability: caps, policy: allow, backends: ['"+caps+"']}\n")))
	base := "http://" + public + "/v1/capabilities/one/resources"
	check.Until(t, "the resources", func() (bool, string) {
		_, text := clienttest.Send(t, clienttest.HTTP, "GET", base, "")
		return strings.Contains(text, "many:"), text
	})
	for _, c := range [][3]string{
		{"GET down/resources", "503", `"reason":"FEATURES_UNKNOWN"`}, {"GET down/prompts", "503", "FEATURES_UNKNOWN"},
		{"GET caps/resources", "200", `"resources":[]`}, {"GET caps/prompts", "200", `"prompts":[]`},
		{"GET caps/resources/read?uri=a:b", "404", `"reason":"RESOURCE_UNKNOWN"`},
		{"POST caps/prompts/greet", "404", `"reason":"PROMPT_UNKNOWN"`},
	} {
		method, path, _ := strings.Cut(c[0], " ")
		resp, text := clienttest.Send(t, clienttest.HTTP, method, "http://"+public+"/v1/capabilities/"+path, "")
		if resp.Status[:3] != c[1] || !strings.Contains(text, c[2]) {
			t.Errorf("%s: %s %s", c[0], resp.Status, text)
		}
	}
	for uri, want := range map[string]string{
		"file:///pictures/logo.png": `resource is \"image/png\"`, "two:contents": "exactly one content",
		"data:,x": `resource is \"application/json\"`,
	} {
		resp, text := clienttest.Send(t, clienttest.HTTP, "GET", base+"/read?uri="+url.QueryEscape(uri), "", "Accept",
			"audio/ogg")
		if resp.StatusCode != http.StatusNotAcceptable || !strings.Contains(text, want) {
			t.Errorf("%s: %s %s", uri, resp.Status, text)
		}
	}
	const png, html, octets = "file:///pictures/logo.png", "urn:x:y?z#f&g=h+i", "application/octet-stream"
	inJSON := func(text string) string { return `{"contents":[` + text + `]}` }
	for _, c := range []struct{ uri, accept, typ, want string }{
		{png, "image/*", "image/png", string(large)},
		{png, "image/avif,image/*,*/*;q=0.8", "image/png", string(large)},
		{png, octets, octets, string(large)},
		{png, "IMAGE/PNG", "image/png", string(large)},
		{png, "*/*", "application/json", inJSON(`{"uri":"` + png + `","mimeType":"image/png","blob":"` +
			base64.StdEncoding.EncodeToString(large) + `"}`)},
		{"file:///a/../b%2Fc", "", "application/json", inJSON(`{"uri":"file:///a/../b%2Fc","text":"dots"}`)},
		{"file:///a/../b%2Fc", "text/plain", "text/plain; charset=utf-8", "dots"},
		{html, "text/html", "text/html; charset=utf-8; profile=mcp-app", "<p>é</p>"},
		{html, "text/html, application/json", "application/json", inJSON(`{"uri":"urn:x:y?z#f\u0026g=h+i",` +
			`"mimeType":"text/html;profile=mcp-app","text":"\u003cp\u003eé\u003c/p\u003e"}`)},
		{"data:,x", "application/json", "application/json",
			inJSON(`{"uri":"data:,x","mimeType":"application/json","text":"{\"a\":1}"}`)},
		{"data:,x", octets, octets, `{"a":1}`},
		{"two:contents", "text/plain, application/json;q=0.1", "application/json", ""},
		{"two:contents", "text/plain", "application/problem+json", ""},
		{png, "text/html", "application/problem+json", ""},
	} {
		for _, method := range []string{"GET", "HEAD"} {
			header := []string{"Accept", c.accept}
			if c.accept == "" {
				header = nil
			}
			resp, text := clienttest.Send(t, clienttest.HTTP, method, base+"/read?uri="+url.QueryEscape(c.uri), "",
				header...)
			head := resp.Header
			isProblem := strings.Contains(c.typ, "problem")
			code := http.StatusOK
			if isProblem {
				code = http.StatusNotAcceptable
			}
			if resp.StatusCode != code || head.Get("Content-Type") != c.typ || head.Get("Vary") == "" ||
				method == "GET" && c.want != "" && text != c.want || method == "HEAD" && text != "" {
				t.Errorf("%s %s as %q: %s %v %.200s", method, c.uri, c.accept, resp.Status, head, text)
			}
			asFile := !isProblem && c.typ != "application/json"
			if asFile != (head.Get("Content-Security-Policy") == "default-src 'none'; sandbox") ||
				asFile != strings.HasPrefix(head.Get("Content-Disposition"), "attachment") ||
				head.Get("X-Content-Type-Options") != "nosniff" {
				t.Errorf("%s %s as %q: %v", method, c.uri, c.accept, head)
			}
		}
	}
	seen, pages, token := map[string]bool{}, 0, ""
	for ; pages == 0 || token != ""; pages++ {
		_, text := clienttest.Send(t, clienttest.HTTP, "GET", base+"?page_size=200&page_token="+token, "")
		var page struct {
			Resources []struct{ URI string }
			Next      string `json:"next_page_token"`
		}
		check.Must(t, json.Unmarshal([]byte(text), &page))
		for _, r := range page.Resources {
			if seen[r.URI] {
				t.Errorf("%s is listed twice", r.URI)
			}
			seen[r.URI] = true
		}
		token = page.Next
	}
	if len(seen) != manyResources+5 || pages != 3 {
		t.Errorf("%d resources on %d pages", len(seen), pages)
	}
}
