package gateway_test

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"

	"github.com/capgate/capgate/gateway/builtin/listing"
	enginelisting "github.com/capgate/capgate/gateway/engine/listing"
	"github.com/capgate/capgate/gateway/filter/authenticate"
	"github.com/capgate/capgate/internal/call"
	"github.com/capgate/capgate/internal/lib/paging"
	"github.com/capgate/capgate/internal/manifest"
	"github.com/capgate/capgate/internal/testkit/check"
	"github.com/capgate/capgate/internal/testkit/clienttest"
	"github.com/capgate/capgate/internal/testkit/gatewaytest"
	"github.com/capgate/capgate/internal/toolschema"
	"github.com/capgate/capgate/policy"
	"github.com/capgate/capgate/policy/catalog"
	capgatepb "github.com/capgate/capgate/proto/capgate/v1"
)

// tool is a tool that a manifest declares.
func tool(t testing.TB, name string) manifest.Tool {
	t.Helper()
	schema, err := toolschema.Compile([]byte(`{"type":"object","properties":{"n":{"type":"integer","maximum":9}}}`))
	check.Must(t, err)
	return manifest.Tool{Name: name, Description: "Does " + name + ".", Schema: schema,
		TerminalOnSuccess: name == "last"}
}

// cataloged is a gateway that lists some capabilities and engines, sorted by name.
func cataloged(t testing.TB, rules policy.Store, tools map[string]catalog.Declaration,
	engines ...string) *gatewaytest.Gateway {
	t.Helper()
	return catalogedFor(t, nil, rules, tools, engines...)
}

// catalogedFor is cataloged for callers with credentials.
func catalogedFor(t testing.TB, callers authenticate.Authenticator, rules policy.Store,
	tools map[string]catalog.Declaration, engines ...string) *gatewaytest.Gateway {
	t.Helper()
	known := catalog.New(catalog.Options{})
	known.Replace(tools)
	options := policy.Options{Store: rules, Source: known, Timeout: check.Patience}
	decider, err := policy.New(options)
	check.Must(t, err)
	b := gatewaytest.NewCapability("b1").Serve(t, call.Doc)
	return gatewaytest.Start(t, gatewaytest.Options{
		Fleets: []gatewaytest.Fleet{{Capability: "caps", Backends: []string{b.Addr}}},
		Policy: options, Authenticator: callers,
		Services: func(g grpc.ServiceRegistrar) {
			all := listing.New(known, decider)
			capgatepb.RegisterCatalogServer(g, enginelisting.New(all, func() []string { return engines }))
		},
	})
}

// getJSON requests JSON; header holds names and values in turn.
func getJSON(t *testing.T, g *gatewaytest.Gateway, path string, header ...string) (*http.Response, string) {
	t.Helper()
	return clienttest.Send(t, g.HTTP1(t), http.MethodGet, g.URL(path), "", header...)
}

// TestCallersSeeWhatTheyMayUse: each caller sees what it may use, over gRPC and JSON, and nothing else.
func TestCallersSeeWhatTheyMayUse(t *testing.T) {
	t.Parallel()
	ann := on("a", "first")
	ann.User = "ann"
	bob := on("a", policy.Any)
	bob.User = "bob"
	g := cataloged(t, &ruled{rules: map[policy.Name]call.Verdict{ann: call.Allow, bob: call.Block,
		on("a", "last"): call.Ask, on("b", policy.Any): call.Block}},
		map[string]catalog.Declaration{
			"a": {Class: call.Environment, Manifest: &manifest.Manifest{Tools: []manifest.Tool{tool(t, "last"),
				tool(t, "first"), tool(t, "hidden")}}},
			"b": {Manifest: &manifest.Manifest{Tools: []manifest.Tool{tool(t, "x")}}},
			"c": {Policy: call.Allow}, // its tools are unknown
			"d": {Manifest: &manifest.Manifest{Dynamic: true, DiscoveryTool: "list_tools"}},
		})
	client := capgatepb.NewCatalogClient(g.Conn(t))
	for user, want := range map[string]string{
		"ann": `[{a environment true [last first]} {c tool false []}]`,
		"bob": `[{c tool false []}]`,
		"":    `[{a environment true [last]} {c tool false []}]`,
	} {
		ctx := metadata.AppendToOutgoingContext(t.Context(), "x-user-id", user)
		resp, err := client.ListCapabilities(ctx, &capgatepb.ListCapabilitiesRequest{})
		check.Must(t, err)
		var got []string
		for _, c := range resp.GetCapabilities() {
			if c.GetName() != "capabilities/"+c.GetId() {
				t.Errorf("%s is called %s", c.GetId(), c.GetName())
			}
			got = append(got, fmt.Sprintf("{%s %s %v %v}", c.GetId(), c.GetClass(), c.GetToolsKnown(), c.GetTools()))
		}
		if text := fmt.Sprint(got); text != want {
			t.Errorf("%q: %s, want %s", user, text, want)
		}
	}
	for _, id := range []string{"a", "b", "d", "nope", ""} {
		ctx := metadata.AppendToOutgoingContext(t.Context(), "x-user-id", "bob")
		_, err := client.GetCapability(ctx, &capgatepb.GetCapabilityRequest{CapabilityId: id})
		wants(t, err, codes.NotFound, "CAPABILITY_UNKNOWN")
		list, err := client.ListTools(ctx, &capgatepb.ListToolsRequest{CapabilityId: id})
		if id == "d" { // no rule covers it: a call reports that too
			if err != nil || len(list.GetTools()) > 0 || list.GetReason() != "NO_POLICY" || list.GetNotice() == "" {
				t.Errorf("got %v, %v", list, err)
			}
			continue
		}
		if info := wants(t, err, codes.NotFound, "CAPABILITY_UNKNOWN"); info.GetMetadata()["capability"] != id {
			t.Errorf("%q: %v", id, info)
		}
	}

	resp, body := getJSON(t, g, "/v1/capabilities/a/tools", "x-user-id", "ann")
	const schema = `{"properties":{"n":{"maximum":9,"type":"integer"}},"type":"object"}`
	var list struct {
		Tools []struct {
			Name, Description, Policy string
			Schema                    json.RawMessage `json:"input_schema"`
			Terminal                  bool            `json:"terminal_on_success"`
		}
	}
	if err := json.Unmarshal([]byte(body), &list); err != nil || resp.StatusCode != http.StatusOK ||
		len(list.Tools) != 2 {
		t.Fatalf("%s %s; err %+v; list %+v", resp.Status, body, err, list)
	}
	if last := list.Tools[0]; last.Name != "last" || last.Policy != "ask" || !last.Terminal ||
		last.Description != "Does last." || string(last.Schema) != schema {
		t.Errorf("got %+v", last)
	}
	if first := list.Tools[1]; first.Name != "first" || first.Policy != "allow" || first.Terminal {
		t.Errorf("got %+v", first)
	}
	if resp, body = getJSON(t, g, "/v1/capabilities/c/tools"); resp.StatusCode != http.StatusOK ||
		!strings.Contains(body, `"reason":"TOOLS_UNKNOWN","notice":"the tools are not known: `) {
		t.Errorf("got %s %s", resp.Status, body)
	}
	if resp, body = getJSON(t, g, "/v1/capabilities/b"); resp.StatusCode != http.StatusNotFound ||
		!strings.Contains(body, "CAPABILITY_UNKNOWN") {
		t.Errorf("got %s %s", resp.Status, body)
	}
}

// TestToolsHavePages: tools come in their author's order. Without page_size there is one page with all of them.
func TestToolsHavePages(t *testing.T) {
	t.Parallel()
	g := cataloged(t, &ruled{rules: map[policy.Name]call.Verdict{on("a", policy.Any): call.Allow,
		on("a", "blocked"): call.Block}},
		map[string]catalog.Declaration{"a": {Manifest: &manifest.Manifest{Tools: []manifest.Tool{tool(t, "z"),
			tool(t, "blocked"), tool(t, "a"), tool(t, "m")}}}})
	client := capgatepb.NewCatalogClient(g.Conn(t))
	for size, want := range map[int32]string{0: "[z a m]", 1: "[z] [a] [m]", 2: "[z a] [m]", 3: "[z a m]",
		1000: "[z a m]"} {
		var pages []string
		for token := ""; len(pages) == 0 || token != ""; {
			resp, err := client.ListTools(t.Context(), &capgatepb.ListToolsRequest{CapabilityId: "a", PageSize: size,
				PageToken: token})
			check.Must(t, err)
			var names []string
			for _, tool := range resp.GetTools() {
				names = append(names, tool.GetName())
			}
			pages, token = append(pages, fmt.Sprint(names)), resp.GetNextPageToken()
		}
		if got := strings.Join(pages, " "); got != want {
			t.Errorf("%d a page: %s, want %s", size, got, want)
		}
	}
	for _, query := range []string{"page_size=1001", "page_size=-1", "page_token=*"} {
		if resp, body := getJSON(t, g, "/v1/capabilities/a/tools?"+query); resp.StatusCode != http.StatusBadRequest ||
			!strings.Contains(body, "LIST_INVALID") {
			t.Errorf("%s: %s %s", query, resp.Status, body)
		}
	}
	// A blocked tool looks like one that does not exist.
	of := func(name string) string {
		_, body := getJSON(t, g, "/v1/capabilities/a/tools?page_token="+paging.Token(name))
		return body
	}
	if of("blocked") != of("absent") {
		t.Error(of("blocked"))
	}
}

// TestCallersCannotSetTheirIdentity: only the gateway sets the identity of a caller of its
// services.
func TestCallersCannotSetTheirIdentity(t *testing.T) {
	t.Parallel()
	ann := on("a", policy.Any)
	ann.User = "ann"
	g := cataloged(t, &ruled{rules: map[policy.Name]call.Verdict{ann: call.Allow}},
		map[string]catalog.Declaration{"a": {}})
	client := capgatepb.NewCatalogClient(g.Conn(t))
	ctx := metadata.AppendToOutgoingContext(t.Context(), "x-capgate-caller", "tenant=default&user=ann",
		"x-capgate-caller", "tenant=default&user=ann")
	if resp, err := client.ListCapabilities(ctx, &capgatepb.ListCapabilitiesRequest{}); err != nil ||
		len(resp.GetCapabilities()) != 0 {
		t.Error(resp, err)
	}
	ctx = metadata.AppendToOutgoingContext(t.Context(), "x-user-id", "ann", "x-capgate-caller", "tenant=default")
	if resp, err := client.ListCapabilities(ctx, &capgatepb.ListCapabilitiesRequest{}); err != nil ||
		len(resp.GetCapabilities()) != 1 {
		t.Error(resp, err)
	}
}

// TestListsHaveETags: an ETag changes with the list, and with nothing else.
func TestListsHaveETags(t *testing.T) {
	t.Parallel()
	rules := &ruled{rules: map[policy.Name]call.Verdict{on("a", "first"): call.Allow}}
	m := &manifest.Manifest{Tools: []manifest.Tool{tool(t, "first"), tool(t, "last")}}
	g := cataloged(t, rules, map[string]catalog.Declaration{"a": {Manifest: m}})
	for _, path := range []string{"/v1/capabilities", "/v1/capabilities/a", "/v1/capabilities/a/tools"} {
		resp, body := getJSON(t, g, path)
		etag := resp.Header.Get("ETag")
		if resp.StatusCode != http.StatusOK || len(etag) < 10 || !strings.Contains(body, "first") ||
			resp.Header.Get("Cache-Control") != "private, no-cache" {
			t.Fatalf("%s: %s %v %s; etag %+v", path, resp.Status, resp.Header, body, etag)
		}
		for _, known := range []string{etag, "W/" + etag, `"x", ` + etag, "*"} {
			if resp, body := getJSON(t, g, path, "If-None-Match", known); resp.StatusCode != http.StatusNotModified ||
				body != "" || resp.Header.Get("ETag") != etag {
				t.Errorf("%s, %s: %s %v %s", path, known, resp.Status, resp.Header, body)
			}
		}
		if resp, again := getJSON(t, g, path, "If-None-Match", `"other"`); resp.StatusCode != http.StatusOK ||
			again != body {
			t.Errorf("%s: %s %s", path, resp.Status, again)
		}
		if resp, _ := getJSON(t, g, path, "If-None-Match", etag, "x-user-id",
			"somebody"); resp.StatusCode != http.StatusNotModified {
			t.Errorf("%s: the same list for another user: %s", path, resp.Status)
		}
	}
}

// TestListsHavePages: the pages contain what the caller may use.
func TestListsHavePages(t *testing.T) {
	t.Parallel()
	tools, rules := map[string]catalog.Declaration{}, map[policy.Name]call.Verdict{}
	var want []string
	for i := range 100 {
		id := fmt.Sprintf("c%03d", i)
		tools[id] = catalog.Declaration{}
		if i%3 == 0 {
			rules[on(id, policy.Any)] = call.Allow
			want = append(want, id)
		}
	}
	g := cataloged(t, &ruled{rules: rules}, tools)
	client := capgatepb.NewCatalogClient(g.Conn(t))
	var got []string
	for token, pages := "", 0; pages == 0 || token != ""; pages++ {
		resp, err := client.ListCapabilities(t.Context(), &capgatepb.ListCapabilitiesRequest{PageSize: 5,
			PageToken: token})
		if err != nil || len(resp.GetCapabilities()) > 5 || pages > 10 {
			t.Fatal(resp, err, pages)
		}
		for _, c := range resp.GetCapabilities() {
			got = append(got, c.GetId())
		}
		token = resp.GetNextPageToken()
	}
	if !slices.Equal(got, want) {
		t.Errorf("got %v, want %v", got, want)
	}
	for _, path := range []string{"?page_size=-1", "?page_size=201", "?page_token=!"} {
		if resp, body := getJSON(t, g, "/v1/capabilities"+path); resp.StatusCode != http.StatusBadRequest ||
			!strings.Contains(body, "LIST_INVALID") {
			t.Errorf("%s: %s %s", path, resp.Status, body)
		}
	}
	if resp, body := getJSON(t, g, "/v1/capabilities?page_size=x"); resp.StatusCode != http.StatusBadRequest ||
		!strings.Contains(body, "INVALID_QUERY") {
		t.Errorf("got %s %s", resp.Status, body)
	}
}

// TestAListFailsWithoutRules: if the rules are unavailable, the list fails; a partial list is never returned.
func TestAListFailsWithoutRules(t *testing.T) {
	t.Parallel()
	g := cataloged(t, &ruled{err: context.DeadlineExceeded}, map[string]catalog.Declaration{"a": {Policy: call.Allow}})
	_, err := capgatepb.NewCatalogClient(g.Conn(t)).ListCapabilities(t.Context(), &capgatepb.ListCapabilitiesRequest{})
	if status.Code(err) != codes.Unavailable || errorInfo(err).GetReason() != "POLICY_UNKNOWN" {
		t.Errorf("got %v", err)
	}
}

// TestEnginesAreListed: engines have their own list, with pages and an ETag.
func TestEnginesAreListed(t *testing.T) {
	t.Parallel()
	g := cataloged(t, &ruled{rules: map[policy.Name]call.Verdict{on(policy.Any, policy.Any): call.Allow}},
		map[string]catalog.Declaration{"a": {}}, "e1", "e2", "e3")
	resp, body := getJSON(t, g, "/v1/engines?page_size=2")
	if resp.StatusCode != http.StatusOK ||
		!strings.HasPrefix(body, `{"engines":[{"id":"e1"},{"id":"e2"}],"next_page_token":"ZTI","etag":"`) {
		t.Errorf("got %s %s", resp.Status, body)
	}
	if same, body := getJSON(t, g, "/v1/engines?page_size=2", "If-None-Match",
		resp.Header.Get("ETag")); same.StatusCode != http.StatusNotModified || body != "" {
		t.Errorf("got %s %s", same.Status, body)
	}
	if resp, body := getJSON(t, g, "/v1/engines?page_token=ZTI"); resp.StatusCode != http.StatusOK ||
		!strings.HasPrefix(body, `{"engines":[{"id":"e3"}],"next_page_token":""`) {
		t.Errorf("got %s %s", resp.Status, body)
	}
	for _, query := range []string{"page_size=-1", "page_size=201", "page_token=!"} {
		if resp, body := getJSON(t, g, "/v1/engines?"+query); resp.StatusCode != http.StatusBadRequest ||
			!strings.Contains(body, "LIST_INVALID") {
			t.Errorf("%s: %s %s", query, resp.Status, body)
		}
	}
	if _, body := getJSON(t, g, "/v1/capabilities"); !strings.HasPrefix(body, `{"capabilities":[{"id":"a",`) ||
		strings.Contains(body, "e1") {
		t.Error(body)
	}
}
