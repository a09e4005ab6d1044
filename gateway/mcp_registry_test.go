package gateway_test

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"testing"

	"google.golang.org/grpc"

	"github.com/capgate/capgate/gateway/builtin/listing"
	"github.com/capgate/capgate/gateway/frontdoor/mcp"
	"github.com/capgate/capgate/gateway/frontdoor/mcp/tools"
	"github.com/capgate/capgate/internal/call"
	"github.com/capgate/capgate/internal/manifest"
	"github.com/capgate/capgate/internal/tenant"
	"github.com/capgate/capgate/internal/testkit/check"
	"github.com/capgate/capgate/internal/testkit/clienttest"
	"github.com/capgate/capgate/internal/testkit/gatewaytest"
	"github.com/capgate/capgate/policy"
	"github.com/capgate/capgate/policy/catalog"
	capgatepb "github.com/capgate/capgate/proto/capgate/v1"
)

// serverList is a response of the registry: a list or one server.
type serverList struct {
	Servers  []serverEntry
	Metadata struct {
		Count      int
		NextCursor string
	}
	serverEntry
}

type serverEntry struct {
	Server struct {
		Name, Title, Description, Version string
		Remotes                           []struct {
			Type, URL string
			Headers   []struct{ Name string }
		}
	}
	Meta map[string]struct {
		Status   string
		IsLatest bool
	} `json:"_meta"`
}

// startRegistry starts a gateway with capabilities c000 to c119. acme is granted those that end in 0, and globex is
// granted c001. Each has the tool of its id.
func startRegistry(t *testing.T, ring *keyring) *gatewaytest.Gateway {
	t.Helper()
	keys, known := tenant.NewKeys(nil), catalog.New(catalog.Options{})
	keys.Replace(ring.keys, settings(t, map[string][]string{"acme": {"c*0"}, "globex": {"c001"}}), nil)
	declared := map[string]catalog.Declaration{}
	for i := range 120 {
		id := fmt.Sprintf("c%03d", i)
		declared[id] = catalog.Declaration{Policy: call.Allow, Manifest: &manifest.Manifest{ID: id,
			Tools: []manifest.Tool{tool(t, "tool_of_"+id)}}}
	}
	known.Replace(declared)
	options := policy.Options{Source: known, Timeout: check.Patience}
	decider, err := policy.New(options)
	check.Must(t, err)
	usable := listing.New(known, decider)
	return gatewaytest.Start(t, gatewaytest.Options{
		Fleets: []gatewaytest.Fleet{{Capability: "c000",
			Backends: []string{gatewaytest.NewCapability("b1").Serve(t, call.Doc).Addr}}},
		Policy: options, Authenticator: keys,
		MCP: tools.Config{Usable: usable, Describe: known.Describe,
			Settings: mcp.Settings{PublicURL: "https://tools.example.com"}},
		Services: func(g grpc.ServiceRegistrar) { capgatepb.RegisterCatalogServer(g, usable) },
	})
}

// TestMCPRegistry: a caller reads its capabilities as servers with the URL of MCP, in pages. Capabilities of another
// tenant do not exist for it.
func TestMCPRegistry(t *testing.T) {
	t.Parallel()
	ring := newKeyring()
	g := startRegistry(t, ring)
	read := func(key, path string) (l serverList, status int, text string) {
		resp, text := getJSON(t, g, "/v0.1/servers"+path, "Authorization", "Bearer "+ring.credentials[key])
		if resp.StatusCode == http.StatusOK {
			if kind := resp.Header.Get("Content-Type"); kind != "application/json" ||
				!strings.HasPrefix(resp.Header.Get("Cache-Control"), "private") {
				t.Errorf("%s: %v", path, resp.Header)
			}
			check.Must(t, json.Unmarshal([]byte(text), &l))
		}
		return l, resp.StatusCode, text
	}
	names := func(l serverList) (all []string) {
		for _, e := range l.Servers {
			all = append(all, strings.TrimPrefix(e.Server.Name, "com.example.tools/"))
		}
		return all
	}
	var got []string
	for cursor, pages := "", 0; pages == 0 || cursor != ""; pages++ {
		page, status, text := read("acme", "?limit=5&version=latest&cursor="+url.QueryEscape(cursor))
		if status != http.StatusOK || len(page.Servers) > 5 || page.Metadata.Count != len(page.Servers) || pages > 3 {
			t.Fatal(status, text)
		}
		got, cursor = append(got, names(page)...), page.Metadata.NextCursor
	}
	want := []string{"c000", "c010", "c020", "c030", "c040", "c050", "c060", "c070", "c080", "c090", "c100", "c110"}
	if !slices.Equal(got, want) {
		t.Errorf("acme sees %v, want %v", got, want)
	}
	for query, want := range map[string]string{"?search=C1": "c100 c110", "?search=none": "", "?version=2.0.0": "",
		"?limit=100&version=1.0.0": strings.Join(want, " ")} {
		if l, status, text := read("acme", query); status != http.StatusOK || strings.Join(names(l), " ") != want ||
			l.Metadata.NextCursor != "" || !strings.Contains(text, `"servers":[`) {
			t.Errorf("%s: %d %s", query, status, text)
		}
	}
	if l, _, text := read("globex", ""); !slices.Equal(names(l), []string{"c001"}) {
		t.Errorf("globex sees %s", text)
	}
	for _, path := range []string{"/com.example.tools%2Fc010/versions/latest",
		"/com.example.tools%2fc010/versions/1.0.0"} {
		l, status, text := read("acme", path)
		s := l.Server
		if status != http.StatusOK || s.Name != "com.example.tools/c010" || s.Title != "c010" ||
			s.Description != "Tools: tool_of_c010" || s.Version != "1.0.0" || len(s.Remotes) != 1 ||
			s.Remotes[0].Type != "streamable-http" || s.Remotes[0].URL != "https://tools.example.com/mcp" ||
			len(s.Remotes[0].Headers) != 1 || s.Remotes[0].Headers[0].Name != "Authorization" ||
			!l.Meta["io.modelcontextprotocol.registry/official"].IsLatest {
			t.Errorf("%s: %d %s", path, status, text)
		}
	}
	if l, _, text := read("acme", "/com.example.tools%2Fc010/versions"); !slices.Equal(names(l), []string{"c010"}) {
		t.Error(text)
	}
	foreign := func(key, id string) string {
		_, status, text := read(key, "/com.example.tools%2F"+id+"/versions/latest")
		var of struct{ Reason string }
		check.Must(t, json.Unmarshal([]byte(text), &of))
		return fmt.Sprint(status, " ", of.Reason)
	}
	if theirs, none := foreign("acme", "c001"), foreign("acme", "nothing"); theirs != none ||
		theirs != "404 CAPABILITY_UNKNOWN" {
		t.Errorf("a server of another tenant: %s, and one that does not exist: %s", theirs, none)
	}
}

// TestMCPRegistryRefusals: requests without a credential, without its scope, and malformed ones are refused.
func TestMCPRegistryRefusals(t *testing.T) {
	t.Parallel()
	ring := newKeyring()
	g := startRegistry(t, ring)
	for _, c := range []struct {
		method, path, key string
		status            int
		reason            string
	}{
		{"GET", "", "", 401, "CREDENTIAL_MISSING"},
		{"GET", "/com.example.tools%2Fc010/versions/latest", "", 401, "CREDENTIAL_MISSING"},
		{"GET", "", "caller", 403, "SCOPE_MISSING"},
		{"GET", "?limit=0", "acme", 400, "LIST_INVALID"},
		{"GET", "?limit=x", "acme", 400, "LIST_INVALID"},
		{"GET", "?limit=101", "acme", 400, "LIST_INVALID"},
		{"GET", "?cursor=garbage", "acme", 400, "LIST_INVALID"},
		{"GET", "?cursor=toolset.Not+one", "acme", 400, "LIST_INVALID"},
		{"GET", "?cursor=!", "acme", 400, "LIST_INVALID"},
		{"GET", "?search=" + strings.Repeat("x", 201), "acme", 400, "LIST_INVALID"},
		{"GET", "/org.other%2Fc010/versions", "acme", 404, "NO_SUCH_PATH"},
		{"GET", "/nothing/versions", "acme", 404, "NO_SUCH_PATH"},
		{"GET", "/com.example.tools%2Fc010/versions/2.0.0", "acme", 404, "NO_SUCH_PATH"},
		{"GET", "/com.example.tools%2Fc010", "acme", 404, "NO_SUCH_PATH"},
		{"GET", "/com.example.tools/c010/versions/latest", "acme", 404, "NO_SUCH_PATH"},
		{"POST", "", "acme", 405, "METHOD_NOT_ALLOWED"},
		{"PUT", "/com.example.tools%2Fc010/versions/1.0.0", "acme", 405, "METHOD_NOT_ALLOWED"},
	} {
		var header []string
		if c.key != "" {
			header = []string{"Authorization", "Bearer " + ring.credentials[c.key]}
		}
		resp, text := clienttest.Send(t, g.HTTP1(t), c.method, g.URL("/v0.1/servers"+c.path), "", header...)
		if resp.StatusCode != c.status || !strings.Contains(text, `"reason":"`+c.reason+`"`) {
			t.Errorf("%+v: %s %s", c, resp.Status, text)
		}
		if c.status == 404 && strings.Contains(text, "%2F") == strings.HasSuffix(c.path, "/2.0.0") {
			t.Errorf("%+v: %s", c, text)
		}
	}
}
