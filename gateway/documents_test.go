package gateway_test

import (
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"go.yaml.in/yaml/v4"

	"github.com/capgate/capgate/internal/call"
	"github.com/capgate/capgate/internal/manifest"
	"github.com/capgate/capgate/internal/tenant"
	"github.com/capgate/capgate/internal/testkit/check"
	"github.com/capgate/capgate/internal/testkit/gatewaytest"
	"github.com/capgate/capgate/policy"
	"github.com/capgate/capgate/policy/catalog"
)

// openAPI holds the parts of a document that tests read.
type openAPI struct {
	OpenAPI    string                    `json:"openapi" yaml:"openapi"`
	Paths      map[string]map[string]any `json:"paths" yaml:"paths"`
	LeftOut    bool                      `json:"x-capgate-left-out" yaml:"x-capgate-left-out"`
	Components struct {
		Schemas map[string]any `json:"schemas" yaml:"schemas"`
	} `json:"components" yaml:"components"`
}

// tools returns the paths of tools in a document.
func (d *openAPI) tools() (all []string) {
	for path := range d.Paths {
		if rest, ok := strings.CutPrefix(path, "/v1/capabilities/"); ok && !strings.HasPrefix(rest, "{") {
			all = append(all, rest)
		}
	}
	slices.Sort(all)
	return all
}

func documentOf(t *testing.T, g *gatewaytest.Gateway, path string, header ...string) (*http.Response, *openAPI) {
	t.Helper()
	resp, body := getJSON(t, g, path, header...)
	doc := new(openAPI)
	read := json.Unmarshal
	if strings.Contains(path, "yaml") {
		read = yaml.Unmarshal
	}
	if err := read([]byte(body), doc); err != nil || resp.StatusCode != http.StatusOK || doc.OpenAPI != "3.1.0" {
		t.Fatalf("%s: %s %v %.300s; doc %+v", path, resp.Status, err, body, doc)
	}
	return resp, doc
}

// TestEachCallerHasItsOwnDocument: a caller's document has exactly the tools that the catalog lists for it.
func TestEachCallerHasItsOwnDocument(t *testing.T) {
	t.Parallel()
	ann, bob := on("a", "first"), on("b", "x")
	ann.User, bob.User = "ann", "bob"
	g := cataloged(t, &ruled{rules: map[policy.Name]call.Verdict{ann: call.Allow, bob: call.Ask,
		on("a", "last"): call.Ask}},
		map[string]catalog.Declaration{
			"a": {Manifest: &manifest.Manifest{Tools: []manifest.Tool{tool(t, "last"), tool(t, "first"),
				tool(t, "hidden")}}},
			"b": {Manifest: &manifest.Manifest{Tools: []manifest.Tool{tool(t, "x")}}},
			"c": {Policy: call.Allow}, // its tools are unknown
		})
	for user, want := range map[string]string{
		"ann": "[a/tools/first a/tools/last]",
		"bob": "[a/tools/last b/tools/x]",
		"":    "[a/tools/last]",
	} {
		for path, form := range map[string]string{"/openapi.json": "application/json",
			"/openapi.yaml": "application/yaml"} {
			resp, doc := documentOf(t, g, path, "x-user-id", user)
			if got := fmt.Sprint(doc.tools()); got != want || resp.Header.Get("Content-Type") != form ||
				resp.Header.Get("Cache-Control") != "private, no-cache" {
				t.Errorf("%s for %q: %s, want %s; %v", path, user, got, want, resp.Header)
			}
			if doc.Paths["/v1/capabilities/{capability_id}/invoke"]["post"] == nil || doc.LeftOut {
				t.Errorf("%s: %v", path, slices.Collect(maps.Keys(doc.Paths)))
			}
		}
	}
	_, doc := documentOf(t, g, "/openapi.json?capability=a", "x-user-id", "bob")
	if got := fmt.Sprint(doc.tools()); got != "[a/tools/last]" {
		t.Error(got)
	}
	if schema := fmt.Sprint(doc.Components.Schemas["a_last"]); schema != "map[properties:map[n:map[maximum:9 "+
		"type:integer]] type:object]" {
		t.Error(schema)
	}
	if resp, body := getJSON(t, g, "/openapi.json?capability=b", "x-user-id",
		"ann"); resp.StatusCode != http.StatusNotFound || !strings.Contains(body, "CAPABILITY_UNKNOWN") {
		t.Errorf("got %s %s", resp.Status, body)
	}
}

// TestDocumentsHaveETags: an ETag changes with what the caller may use, and with nothing else.
func TestDocumentsHaveETags(t *testing.T) {
	t.Parallel()
	ann := on("a", "last")
	ann.User = "ann"
	g := cataloged(t, &ruled{rules: map[policy.Name]call.Verdict{on("a", "first"): call.Allow, ann: call.Allow}},
		map[string]catalog.Declaration{"a": {Manifest: &manifest.Manifest{Tools: []manifest.Tool{tool(t, "first"),
			tool(t, "last")}}}})
	seen := map[string]string{}
	for _, path := range []string{"/openapi.json", "/openapi.yaml"} {
		for _, user := range []string{"", "ann"} {
			resp, body := getJSON(t, g, path, "x-user-id", user)
			etag := resp.Header.Get("ETag")
			if seen[etag] != "" || len(etag) < 10 {
				t.Errorf("%s for %q: ETag %s is also that of %s", path, user, etag, seen[etag])
			}
			seen[etag] = path + user
			if resp, none := getJSON(t, g, path, "x-user-id", user, "If-None-Match",
				etag); resp.StatusCode != http.StatusNotModified || none != "" {
				t.Errorf("%s: %s %s", path, resp.Status, none)
			}
			if resp, again := getJSON(t, g, path, "x-user-id", user, "If-None-Match",
				`"x"`); resp.Header.Get("ETag") != etag || again != body {
				t.Errorf("%s: the repeat differs: ETag %q, want %q; %s", path, resp.Header.Get("ETag"), etag, again)
			}
		}
		if resp, _ := getJSON(t, g, path, "x-user-id", "somebody"); seen[resp.Header.Get("ETag")] != path {
			t.Errorf("%s: the same tools, but %s", path, resp.Header.Get("ETag"))
		}
	}
}

// TestLargeCatalogsAreCut: the document of a large catalog is truncated and says so.
func TestLargeCatalogsAreCut(t *testing.T) {
	t.Parallel()
	tools := map[string]catalog.Declaration{}
	for i := range 60 {
		one := tool(t, "x")
		one.Description = strings.Repeat("x", 100<<10)
		tools[fmt.Sprintf("c%02d", i)] = catalog.Declaration{Policy: call.Allow,
			Manifest: &manifest.Manifest{Tools: []manifest.Tool{one}}}
	}
	g := cataloged(t, &ruled{rules: map[policy.Name]call.Verdict{on(policy.Any, policy.Any): call.Allow}}, tools)
	_, doc := documentOf(t, g, "/openapi.json")
	if n := len(doc.tools()); !doc.LeftOut || n < 30 || n > 50 {
		t.Errorf("%d tools, %v", n, doc.LeftOut)
	}
	if _, doc := documentOf(t, g, "/openapi.json?capability=c59"); doc.LeftOut || len(doc.tools()) != 1 {
		t.Errorf("got %v", doc.tools())
	}
}

// TestDocumentsOfKeys: a request without a key gets the fixed routes, one with an invalid key is rejected.
func TestDocumentsOfKeys(t *testing.T) {
	t.Parallel()
	ring := newKeyring()
	f := keyed(t, ring, call.Doc, call.Doc)
	_, doc := documentOf(t, f.gateway, "/openapi.json")
	if len(doc.tools()) != 0 || doc.Paths["/v1/capabilities"] == nil {
		t.Errorf("got %v", doc.Paths)
	}
	for credential, want := range map[string]string{ring.credentials["expired"]: "CREDENTIAL_EXPIRED",
		ring.credentials["caller"]: "SCOPE_MISSING", "cg_nonsense": "CREDENTIAL_INVALID"} {
		for _, path := range []string{"/openapi.json", "/openapi.yaml", "/openapi.json?capability=caps"} {
			if resp, body := getJSON(t, f.gateway, path, "Authorization", "Bearer "+
				credential); resp.StatusCode < 400 || !strings.Contains(body, want) {
				t.Errorf("%s: %s %s, want %s", path, resp.Status, body, want)
			}
		}
	}
	if resp, body := getJSON(t, f.gateway, "/docs"); resp.StatusCode != http.StatusOK ||
		!strings.Contains(body, "docs/assets/console.js") {
		t.Errorf("got %s %s", resp.Status, body)
	}
}

// TestACapabilityThatIsTooLargeIsLeftOut: a capability whose tools do not fit in a message is left out; the
// others are listed.
func TestACapabilityThatIsTooLargeIsLeftOut(t *testing.T) {
	t.Parallel()
	var many []manifest.Tool
	for i := range 170 {
		one := tool(t, fmt.Sprintf("x%d", i))
		one.Description = strings.Repeat("x", 100<<10)
		many = append(many, one)
	}
	g := cataloged(t, &ruled{rules: map[policy.Name]call.Verdict{on(policy.Any, policy.Any): call.Allow}},
		map[string]catalog.Declaration{
			"big":   {Policy: call.Allow, Manifest: &manifest.Manifest{Tools: many}},
			"small": {Policy: call.Allow, Manifest: &manifest.Manifest{Tools: []manifest.Tool{tool(t, "x")}}},
		})
	if _, doc := documentOf(t, g, "/openapi.json"); !doc.LeftOut || fmt.Sprint(doc.tools()) != "[small/tools/x]" {
		t.Errorf("got %v, %v", doc.tools(), doc.LeftOut)
	}
	if _, doc := documentOf(t, g, "/openapi.json?capability=big"); !doc.LeftOut || len(doc.tools()) != 0 {
		t.Errorf("got %v, %v", doc.tools(), doc.LeftOut)
	}
}

// TestDocumentsArePaced: a client that repeatedly requests documents with many tools is slowed down, so that
// others are not. Documents with few tools, and those of other tenants, are not limited.
func TestDocumentsArePaced(t *testing.T) {
	t.Parallel()
	authors := map[string]catalog.Declaration{}
	for name, n := range map[string]int{"few": 1, "many": 499} {
		var tools []manifest.Tool
		for i := range n {
			tools = append(tools, tool(t, fmt.Sprintf("tool%d", i)))
		}
		authors[name] = catalog.Declaration{Policy: call.Allow, Manifest: &manifest.Manifest{Tools: tools}}
	}
	ring, settings := newKeyring(), map[string]*tenant.Settings{}
	grants, err := tenant.ParseGrants([]string{"*"})
	check.Must(t, err)
	for _, id := range []string{"acme", "globex"} {
		settings[id] = &tenant.Settings{ID: id, Capabilities: grants}
	}
	keys := tenant.NewKeys(nil)
	keys.Replace(ring.keys, settings, nil)
	g := catalogedFor(t, keys, &ruled{}, authors)
	get := func(of, path string) (*http.Response, string) {
		return getJSON(t, g, path, "Authorization", "Bearer "+ring.credentials[of])
	}
	for range 100 {
		if resp, body := get("acme", "/openapi.json?capability=few"); resp.StatusCode != http.StatusOK {
			t.Fatalf("a small document: %s %s", resp.Status, body)
		}
	}
	began := time.Now()
	for n := range 30 {
		resp, body := get("acme", "/openapi.json?capability=many")
		if resp.StatusCode == http.StatusOK {
			continue
		}
		if resp.StatusCode != http.StatusTooManyRequests || resp.Header.Get("Retry-After") == "" ||
			!strings.Contains(body, "DOCUMENTS_LIMITED") || n < 8 {
			t.Errorf("document %d: %s %v %s", n, resp.Status, resp.Header, body)
		}
		if resp, body := get("globex", "/openapi.json?capability=many"); resp.StatusCode != http.StatusOK {
			t.Errorf("another tenant: %s %s", resp.Status, body)
		}
		return
	}
	if time.Since(began) < 50*time.Second { // in which a busy machine may list as many tools
		t.Error("the documents are not limited")
	}
}
