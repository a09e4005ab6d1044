package mcp

import (
	"context"
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"

	"github.com/capgate/capgate/gateway/questions"
	"github.com/capgate/capgate/gateway/relay"
	"github.com/capgate/capgate/internal/lib/strictjson"
	"github.com/capgate/capgate/internal/manifest"
	docpb "github.com/capgate/capgate/proto/selu/capability"
)

// TestAppsOfTools: a tool's app leads to the tool's server, however its server writes _meta.
func TestAppsOfTools(t *testing.T) {
	t.Parallel()
	for meta, want := range map[string]string{
		`{"ui":{"resourceUri":"ui://a"}}`:                `{"ui":{"resourceUri":"ui://capgate/one/a"}}`,
		`{"\u0075i":{"resource\u0055ri":"ui://a"}}`:      `{"ui":{"resourceUri":"ui://capgate/one/a"}}`,
		`{"ui\/resourceUri":"ui://a"}`:                   `{"ui/resourceUri":"ui://capgate/one/a"}`,
		`{"ui/resourceUri":"ui://capgate/two/a"}`:        `{"ui/resourceUri":"ui://capgate/one/capgate/two/a"}`,
		`{"ui":{"resourceUri":"UI://a"}}`:                `{"ui":{"resourceUri":"capgate:one:UI://a"}}`,
		`{"ui":{"resourceUri":"https://example.com/a"}}`: `{"ui":{"resourceUri":"capgate:one:https://example.com/a"}}`,
		`{"ui":{"resourceUri":"capgate:two:ui://a"}}`:    `{"ui":{"resourceUri":"capgate:one:capgate:two:ui://a"}}`,
		`{"ui":[],"ui/resourceUri":{}}`:                  `{"ui":[],"ui/resourceUri":{}}`,
		`{"ui":null}`:                                    `{"ui":null}`,
		`{"guide":"ui"}`:                                 `{"guide":"ui"}`,
		``:                                               ``,
	} {
		if got := string(withApp("one", json.RawMessage(meta))); got != want {
			t.Errorf("%s: %s, want %s", meta, got, want)
		}
	}
}

// TestURIsOfApps: the URI of an app leads to its server alone, whatever others list.
func TestURIsOfApps(t *testing.T) {
	t.Parallel()
	listed, err := manifest.ParseFeatures([]byte(`{"resources":[{"name":"a","uri":"ui://a"},` +
		`{"name":"b","uri":"ui://capgate/one/a"}]}`))
	if err != nil {
		t.Fatal(err)
	}
	u := newURIs([]Offer{{Capability: "one", Reads: true}, {Capability: "two", Reads: true, URIs: listed.URIs}})
	for _, c := range []struct{ capability, own, want string }{
		{"one", "ui://a", "ui://capgate/one/a"}, {"two", "ui://a", "ui://capgate/two/a"},
		{"two", "ui://capgate/one/a", "ui://capgate/two/capgate/one/a"}, {"one", "ui://a/../b?c#%2F", ""},
		{"two", "ui://a//b", "ui://capgate/two/a//b"},
	} {
		named := u.name(c.capability, c.own)
		capability, own, ok := u.resolve(named)
		if c.want != "" && named != c.want || u.template(c.capability, c.own) != named ||
			u.linksOf(t.Context(), c.capability).link(c.own) != named || !ok || capability != c.capability ||
			own != c.own {
			t.Errorf("%s of %s is %s, which is %s of %s", c.own, c.capability, named, own, capability)
		}
	}
	for _, uri := range []string{"ui://capgate/", "ui://capgate/one", "ui://capgate/one/", "ui://capgate//a"} {
		if capability, own, ok := u.resolve(uri); ok {
			t.Errorf("%s is %s of %s", uri, own, capability)
		}
	}
	if capability, _, ok := u.resolve("ui://a"); !ok || capability != "two" {
		t.Errorf("the URI of the only server that lists it leads to %q", capability)
	}
}

// TestClientsWithApps: a client shows apps if it declares their media type in the form of the extension.
func TestClientsWithApps(t *testing.T) {
	t.Parallel()
	const app = `"text/html;profile=mcp-app"`
	for settings, want := range map[string]bool{
		`{"mimeTypes":[` + app + `]}`: true, `{"mimeTypes":["x",` + app + `]}`: true, `{"mimeTypes":["x"]}`: false,
		`{"mimeTypes":` + app + `}`: false, `{"mimeTypes":[[` + app + `]]}`: false, `{}`: false,
		`[]`: false, `null`: false,
		`{"mimetypes":[` + app + `]}`: false, `{"mimeTypes":[` + strings.Repeat("1,", 1000) + app + `]}`: true,
	} {
		reader := strictjson.Get()
		text := []byte(`{"io.modelcontextprotocol/ui":` + settings + `}`)
		if err := reader.Read(text, strictjson.Options{Keep: true}); err != nil {
			t.Fatal(err)
		}
		if got := showsApps(reader.Root()); got != want {
			t.Errorf("%.80s: %t", settings, got)
		}
		reader.Release()
	}
}

// TestTasksOfClientsWithApps: the call of a task declares that its client shows apps, as any call of the client does.
// Otherwise the server would get it in another session.
func TestTasksOfClientsWithApps(t *testing.T) {
	t.Parallel()
	for _, shows := range []bool{false, true} {
		declares := false
		h := New(Config{Unary: func(_ context.Context, r *relay.Request, _ []byte, _ *relay.Response) {
			declares = slices.ContainsFunc(r.Header, func(f relay.Field) bool {
				return f.Name == questions.AppsMetadata
			})
		}})
		read := &message{version: "2026-07-28"}
		read.meta.Apps = shows
		r := httptest.NewRequestWithContext(t.Context(), http.MethodPost, Path, nil)
		i := &invocation{exchange: &exchange{r: r, read: read}, stateless: true, req: new(docpb.InvokeRequest),
			results: Results{Relayed: true}}
		if _, _, err := h.patiently(t.Context(), i, "task"); err != nil {
			t.Error(err)
		}
		if declares != shows {
			t.Errorf("the client shows apps: %t, and the call declares it: %t", shows, declares)
		}
	}
}
