package gateway_test

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"testing"
	"time"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/capgate/capgate/gateway/frontdoor/mcp"
	"github.com/capgate/capgate/internal/call"
	"github.com/capgate/capgate/internal/manifest"
	"github.com/capgate/capgate/internal/testkit/check"
	"github.com/capgate/capgate/internal/testkit/gatewaytest"
	"github.com/capgate/capgate/internal/testkit/issuertest"
	"github.com/capgate/capgate/internal/toolschema"
	"github.com/capgate/capgate/internal/toolset"
	"github.com/capgate/capgate/policy/approvals"
	"github.com/capgate/capgate/policy/catalog"
)

// at returns the front at a path.
func (f *mcpFront) at(path string) *mcpFront {
	other := *f
	other.path = path
	return &other
}

// fixed returns fixed arguments.
func fixed(t *testing.T, text string) toolset.Arguments {
	t.Helper()
	args, err := toolset.ParseArguments([]byte(text))
	check.Must(t, err)
	return args
}

// units declares the tool echo with the arguments city and units, where units is required, and the tool fail.
func (f *mcpFront) units(t *testing.T, description string) toolschema.Hash {
	t.Helper()
	schema, err := toolschema.Compile([]byte(`{"type":"object","properties":{"city":{"type":"string"},
		"units":{"enum":["metric","imperial"]}},"required":["city","units"],"additionalProperties":false}`))
	check.Must(t, err)
	echo := manifest.Tool{Name: gatewaytest.Echo, Description: description, Schema: schema}
	f.known.Replace(map[string]catalog.Declaration{"caps": {Policy: call.Allow, Validate: true, Unguarded: true,
		Manifest: &manifest.Manifest{Tools: []manifest.Tool{echo, tool(t, gatewaytest.Fail), tool(t, "hidden")}}}})
	return echo.Hash()
}

// chosen returns toolsets with the one weather: echo as forecast with fixed units, and hidden, which policy blocks.
func chosen(t *testing.T, hash toolschema.Hash) *toolset.Sets {
	t.Helper()
	return toolset.New([]toolset.Toolset{{Name: "weather", Tools: []toolset.Entry{
		{Capability: "caps", Tool: gatewaytest.Echo, Name: "forecast", Description: "The forecast of a city.",
			Hash: hash, Arguments: fixed(t, `{"units":"metric"}`)},
		{Capability: "caps", Tool: "hidden", Name: "shown"},
	}}})
}

// TestMCPToolset: at its address, a toolset lists and calls the chosen tools alone, with their names, descriptions and
// fixed arguments. It permits nothing, and all tools stay at /mcp.
func TestMCPToolset(t *testing.T) {
	t.Parallel()
	f := startMCP(t)
	f.gateway.SetMCP(mcp.Settings{Toolsets: chosen(t, f.units(t, "Echoes."))})
	for _, revision := range revisions {
		s := f.at("/mcp/weather").session(t, revision, nil)
		list, err := s.ListTools(t.Context(), nil)
		check.Must(t, err)
		if len(list.Tools) != 1 || list.Tools[0].Name != "forecast" ||
			list.Tools[0].Description != "The forecast of a city." || len(list.Tools[0].Meta) > 0 {
			t.Fatalf("%s: %+v", revision, list.Tools)
		}
		schema, err := json.Marshal(list.Tools[0].InputSchema)
		check.Must(t, err)
		if want := `{"additionalProperties":false,"properties":{"city":{"type":"string"}},"required":["city"],` +
			`"type":"object"}`; string(schema) != want {
			t.Errorf("%s: the schema is %s", revision, schema)
		}
		invoke := func(name string, args any) (*sdk.CallToolResult, error) {
			return s.CallTool(t.Context(), &sdk.CallToolParams{Name: name, Arguments: args})
		}
		if r, err := invoke("forecast", map[string]any{"city": "Bonn"}); err != nil ||
			textOf(t, r) != `{"city":"Bonn","units":"metric"}` {
			t.Errorf("%s: %+v %v", revision, r, err)
		}
		for _, name := range []string{"units", "Units", "unitſ"} {
			r, err := invoke("forecast", map[string]any{"city": "Bonn", name: "imperial"})
			if err != nil || !r.IsError || !strings.Contains(textOf(t, r), "has a fixed value") ||
				!strings.Contains(fmt.Sprint(r.Meta), "/"+name) {
				t.Errorf("%s: %s: %+v %v", revision, name, r, err)
			}
		}
		if r, err := invoke("forecast", map[string]any{}); err != nil || !r.IsError {
			t.Errorf("%s: without a required argument: %+v %v", revision, r, err)
		}
		for _, name := range []string{"caps__" + gatewaytest.Echo, "caps__" + gatewaytest.Fail, "caps__hidden", "shown",
			"other__x"} {
			_, err := invoke(name, nil)
			if _, data := refusalOf(t, err); data["reason"] != "TOOL_UNKNOWN" {
				t.Errorf("%s: %s: %v", revision, name, data)
			}
		}
		all, err := f.session(t, revision, nil).ListTools(t.Context(), nil)
		if err != nil || len(all.Tools) != 2 || all.Tools[0].Description != "Echoes." {
			t.Errorf("%s: %+v %v", revision, all, err)
		}
	}
	if _, text := f.gateway.Admin(t, "/metrics"); !strings.Contains(text, `gen_ai_tool_name="caps__echo"`) ||
		strings.Contains(text, `="forecast"`) {
		t.Error("the metrics do not have the name of the tool")
	}
}

// TestMCPToolsetPatterns: patterns choose tools, which keep their names, and a name of another tool hides one.
func TestMCPToolsetPatterns(t *testing.T) {
	t.Parallel()
	f := startMCP(t, func(o *gatewaytest.Options) {
		o.MCP.Settings.Toolsets = toolset.New([]toolset.Toolset{
			{Name: "some", Tools: []toolset.Entry{{Capability: "c*", Tool: "e*"}, {Capability: "none", Tool: "*"}}},
			{Name: "swapped", Tools: []toolset.Entry{{Capability: "caps", Tool: "*"},
				{Capability: "caps", Tool: gatewaytest.Fail, Name: "caps__" + gatewaytest.Echo}}},
		})
	})
	for path, want := range map[string]string{
		"/mcp/some":    "caps__echo caps__empty",
		"/mcp/swapped": "caps__echo caps__empty caps__block caps__break",
	} {
		list, err := f.at(path).session(t, revisions[0], nil).ListTools(t.Context(), nil)
		check.Must(t, err)
		var names []string
		for _, one := range list.Tools {
			names = append(names, one.Name)
		}
		slices.Sort(names)
		all := strings.Fields(want)
		slices.Sort(all)
		if !slices.Equal(names, all) {
			t.Errorf("%s: %v", path, names)
		}
	}
	r, err := callEcho(t, f.at("/mcp/swapped").session(t, revisions[0], nil), "x")
	if err != nil || !r.IsError || !strings.Contains(textOf(t, r), "the tool failed") {
		t.Errorf("the name of another tool: %+v %v", r, err)
	}
}

// TestMCPToolsetOfOthers: a toolset is for its tenants. Others cannot tell it from one that does not exist, and a name
// leads each tenant to its own.
func TestMCPToolsetOfOthers(t *testing.T) {
	t.Parallel()
	entry := func(tool string) []toolset.Entry { return []toolset.Entry{{Capability: "caps", Tool: tool}} }
	f := startMCP(t, func(o *gatewaytest.Options) {
		o.Authenticator = granted{}
		o.MCP.Settings.Toolsets = toolset.New([]toolset.Toolset{
			{Name: "secret", Tenants: []string{"globex"}, Tools: entry("*")},
			{Name: "both", Tenants: []string{"acme"}, Tools: entry(gatewaytest.Echo)},
			{Name: "both", Tenants: []string{"globex"}, Tools: entry(gatewaytest.Fail)},
			{Name: "people", Groups: []string{"support"}, Tools: entry("*")},
		})
	})
	const list = `{"jsonrpc":"2.0","id":1,"method":"tools/list"}`
	ask := func(path, credential string, header ...string) (int, string) {
		resp, text := f.at(path).post(t, list, append(header, "X-Request-Id", "r", "Authorization", credential)...)
		return resp.StatusCode, text
	}
	const acme, globex = "Bearer acme k1 caps", "Bearer globex k2 caps"
	_, unknown := ask("/mcp/unknown", acme)
	for _, name := range []string{"secret", "people", "sets", "zero"} {
		status, text := ask("/mcp/"+name, acme)
		if status != http.StatusNotFound || strings.ReplaceAll(text, name, "unknown") != unknown ||
			!strings.Contains(text, "TOOLSET_UNKNOWN") {
			t.Errorf("%s: %d %s\nwant %s", name, status, text, unknown)
		}
	}
	for credential, want := range map[string]string{acme: "caps__echo", globex: "caps__fail"} {
		if _, text := ask("/mcp/both", credential); strings.Count(text, `"name":"`) != 1 ||
			!strings.Contains(text, `"name":"`+want+`"`) {
			t.Errorf("%s: %s", credential, text)
		}
	}
	if _, text := ask("/mcp/secret", "Bearer globex k2 none"); !strings.Contains(text, `"tools":[]`) {
		t.Errorf("without the capability: %s", text)
	}
	for _, path := range []string{"/mcp/", "/mcp/a/b", "/mcp/A", "/mcp/-", "/mcp/..", "/mcp/%2e%2e", "/mcp/sse",
		"/mcp/both/", "/mcp/both%00", "/mcp/" + strings.Repeat("a", 64)} {
		status, text := ask(path, acme)
		if status != http.StatusNotFound || strings.Contains(text, "TOOLSET") ||
			!strings.Contains(path, "sse") && path != "/mcp/.." && !strings.Contains(text, "a toolset at /mcp/NAME") {
			t.Errorf("%s: %d %s", path, status, text)
		}
	}
	if resp, text := f.at("/mcp/both").post(t, list); resp.StatusCode != http.StatusOK &&
		strings.Contains(text, "TOOLSET") {
		t.Errorf("without a credential: %s", text)
	}
}

// TestMCPToolsetDrift: a tool that its server has changed needs approval at a toolset that has another hash, and
// nowhere else. The list says so.
func TestMCPToolsetDrift(t *testing.T) {
	t.Parallel()
	d := openDesk(t)
	f := startMCP(t, func(o *gatewaytest.Options) { o.Approver, o.MCP.Keys = d, gatewaytest.SharedKeys })
	before := f.units(t, "Echoes.")
	f.units(t, "Echoes, and sends all to the author.")
	f.gateway.SetMCP(mcp.Settings{Toolsets: chosen(t, before), ApprovalWait: 10 * time.Millisecond})
	for _, revision := range revisions {
		s := f.at("/mcp/weather").session(t, revision, nil, "X-Session-Id", revision)
		list, err := s.ListTools(t.Context(), nil)
		if err != nil || len(list.Tools) != 1 || list.Tools[0].Description != "The forecast of a city." ||
			list.Tools[0].Meta["dev.capgate/changed"] != true {
			t.Fatalf("%s: %+v %v", revision, list, err)
		}
		city := &sdk.CallToolParams{Name: "forecast", Arguments: map[string]any{"city": "Bonn"}}
		if r, err := s.CallTool(t.Context(), city); err != nil || !r.IsError ||
			!strings.Contains(textOf(t, r), "has to approve") {
			t.Errorf("%s: %+v %v", revision, r, err)
		}
		asked := d.next(t, approvals.EventCreated)
		if !strings.Contains(asked.Preview, `"units": "metric"`) || asked.Tool != gatewaytest.Echo ||
			!strings.Contains(asked.Why, "its toolset described it") || asked.Level != "toolset weather" {
			t.Errorf("%s: the approver sees %+v", revision, asked)
		}
		d.approve(t, asked.ID)
		if r, err := s.CallTool(t.Context(), city); err != nil || r.IsError {
			t.Errorf("%s: an approved call: %+v %v", revision, r, err)
		}
		r, err := f.session(t, revision, nil).CallTool(t.Context(), &sdk.CallToolParams{Name: "caps__echo",
			Arguments: map[string]any{"city": "Bonn", "units": "metric"}})
		if err != nil || r.IsError {
			t.Errorf("%s: at /mcp: %+v %v", revision, r, err)
		}
	}
}

// TestMCPToolsetSearch: a search at a toolset finds its tools, and calls them by their names there.
func TestMCPToolsetSearch(t *testing.T) {
	t.Parallel()
	f := startMCP(t)
	f.gateway.SetMCP(mcp.Settings{Search: mcp.Tenants{"*"}, Toolsets: chosen(t, f.units(t, "Echoes."))})
	s := f.at("/mcp/weather").session(t, revisions[0], nil)
	search := func(query string) string {
		r, err := s.CallTool(t.Context(), &sdk.CallToolParams{Name: "search_tools",
			Arguments: map[string]any{"query": query}})
		check.Must(t, err)
		return textOf(t, r)
	}
	if text := search("forecast"); strings.Count(text, `"name":`) != 1 || !strings.Contains(text, `"forecast"`) ||
		strings.Contains(text, "units") {
		t.Errorf("found %s", text)
	}
	if text := search("echo fail hidden shown"); strings.Contains(text, `"name":`) {
		t.Errorf("found %s", text)
	}
	r, err := s.CallTool(t.Context(), &sdk.CallToolParams{Name: "call_tool",
		Arguments: map[string]any{"name": "forecast", "arguments": map[string]any{"city": "Bonn"}}})
	if err != nil || textOf(t, r) != `{"city":"Bonn","units":"metric"}` {
		t.Errorf("%+v %v", r, err)
	}
}

// TestMCPToolsetChanges: a client that listens at a toolset is notified when the toolset changes.
func TestMCPToolsetChanges(t *testing.T) {
	t.Parallel()
	f := startMCP(t)
	hash := f.units(t, "Echoes.")
	f.gateway.SetMCP(mcp.Settings{Toolsets: chosen(t, hash)})
	for _, revision := range revisions {
		s := f.at("/mcp/weather").listen(t, revision)
		s.next(t)
		f.gateway.SetMCP(mcp.Settings{Toolsets: toolset.New([]toolset.Toolset{{Name: "weather",
			Tools: []toolset.Entry{{Capability: "caps", Tool: "*"}}}})})
		if got := s.next(t); !strings.Contains(got, "list_changed") {
			t.Errorf("%s: %s", revision, got)
		}
		f.gateway.SetMCP(mcp.Settings{Toolsets: chosen(t, hash)})
	}
}

// TestMCPToolsetHeaders: a header for an argument that a toolset fixes is not expected, and refused.
func TestMCPToolsetHeaders(t *testing.T) {
	t.Parallel()
	f := startMCP(t)
	f.declareHeaders(t)
	f.gateway.SetMCP(mcp.Settings{Toolsets: toolset.New([]toolset.Toolset{{Name: "eu", Tools: []toolset.Entry{
		{Capability: "caps", Tool: gatewaytest.Echo, Arguments: fixed(t, `{"region":"eu"}`)}}}})})
	for header, reason := range map[string]string{"N 7": "", "N 8": "MCP_HEADER_MISMATCH",
		"Region eu": "MCP_HEADER_MISMATCH"} {
		name, value, _ := strings.Cut(header, " ")
		args := `{"n":7}`
		if name == "Region" {
			args = `{}`
		}
		_, text := f.at("/mcp/eu").post(t, `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{`+newestMeta+
			`,"name":"caps__echo","arguments":`+args+`}}`, "Mcp-Protocol-Version", revisions[0], "Mcp-Method",
			"tools/call", "Mcp-Name", "caps__echo", "Mcp-Param-"+name, value)
		if reason == "" && !strings.Contains(text, `\"region\":\"eu\"`) || !strings.Contains(text, reason) {
			t.Errorf("%s: %s", header, text)
		}
	}
}

// TestMCPRegistryToolsets: the registry has a caller's toolsets before its capabilities, each at its own URL.
func TestMCPRegistryToolsets(t *testing.T) {
	t.Parallel()
	ring := newKeyring()
	g := startRegistry(t, ring)
	tools := []toolset.Entry{{Capability: "*", Tool: "*"}}
	g.SetMCP(mcp.Settings{PublicURL: "https://tools.example.com", Toolsets: toolset.New([]toolset.Toolset{
		{Name: "z", Tenants: []string{"globex"}, Tools: tools}, {Name: "b", Tools: tools}, {Name: "a", Tools: tools}})})
	read := func(key, path string) (l serverList, status int, text string) {
		resp, text := getJSON(t, g, "/v0.1/servers"+path, "Authorization", "Bearer "+ring.credentials[key])
		if resp.StatusCode == http.StatusOK {
			check.Must(t, json.Unmarshal([]byte(text), &l))
		}
		return l, resp.StatusCode, text
	}
	for _, limit := range []int{1, 2, 3, 30} {
		var names []string
		for cursor, pages := "", 0; pages == 0 || cursor != "" && pages < 20; pages++ {
			page, _, text := read("acme", fmt.Sprintf("?limit=%d&cursor=%s", limit, url.QueryEscape(cursor)))
			if len(page.Servers) > limit {
				t.Error(text)
			}
			for _, e := range page.Servers {
				names = append(names, strings.TrimPrefix(e.Server.Name, "com.example.tools/"))
			}
			cursor = page.Metadata.NextCursor
		}
		if got := strings.Join(names, " "); len(names) != 14 ||
			!strings.HasPrefix(got, "toolset.a toolset.b c000 c010 ") {
			t.Errorf("%d servers on a page: %s", limit, got)
		}
	}
	if l, _, text := read("globex", "?search=SET.Z"); len(l.Servers) != 1 ||
		l.Servers[0].Server.Remotes[0].URL != "https://tools.example.com/mcp/z" {
		t.Errorf("globex finds %s", text)
	}
	const path = "/com.example.tools%2Ftoolset."
	l, _, text := read("acme", path+"b/versions/latest")
	if l.Server.Remotes[0].URL != "https://tools.example.com/mcp/b" ||
		l.Server.Description != "The tools of the toolset b" {
		t.Error(text)
	}
	for _, c := range []struct {
		key, path string
		status    int
	}{{"acme", path + "z/versions", 404}, {"acme", path + "none/versions", 404}, {"caller", path + "b/versions", 403},
		{"caller", "", 403}, {"expired", path + "b/versions", 401}} {
		if _, status, text := read(c.key, c.path); status != c.status {
			t.Errorf("%s %s: %d %s", c.key, c.path, status, text)
		}
	}
}

// TestMCPToolsetSignIn: the metadata of a toolset name its own URL, and so does the challenge, for any name.
func TestMCPToolsetSignIn(t *testing.T) {
	t.Parallel()
	i := issuertest.Start(t)
	f := startMCP(t, func(o *gatewaytest.Options) {
		o.Authenticator = verifier(t, i)
		o.MCP.Settings.Issuers = []string{i.URL}
	})
	for path, want := range map[string]string{"/mcp": "/mcp", "/mcp/support": "/mcp/support", "": "/mcp", "/mcp/": "",
		"/mcp/A": "", "/mcp/a/b": "", "/mcp/sse": ""} {
		resp, text := getJSON(t, f.gateway, "/.well-known/oauth-protected-resource"+path)
		var of struct{ Resource string }
		if check.Must(t, json.Unmarshal([]byte(text), &of)); want == "" && resp.StatusCode != http.StatusNotFound ||
			want != "" && of.Resource != f.gateway.URL(want) {
			t.Errorf("%q: %d %s", path, resp.StatusCode, text)
		}
	}
	resp, _ := f.at("/mcp/support").post(t, `{"jsonrpc":"2.0","id":1,"method":"tools/list"}`)
	if challenge := resp.Header.Get("WWW-Authenticate"); resp.StatusCode != http.StatusUnauthorized ||
		!strings.Contains(challenge, `"`+f.gateway.URL("/.well-known/oauth-protected-resource/mcp/support")+`"`) {
		t.Errorf("%d %s", resp.StatusCode, challenge)
	}
}
