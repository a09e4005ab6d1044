package toolsets_test

import (
	"log/slog"
	"net/http"
	"strings"
	"testing"

	"github.com/capgate/capgate/gateway/admin/guard"
	"github.com/capgate/capgate/gateway/admin/toolsets"
	"github.com/capgate/capgate/internal/call"
	"github.com/capgate/capgate/internal/config"
	"github.com/capgate/capgate/internal/manifest"
	"github.com/capgate/capgate/internal/operator"
	"github.com/capgate/capgate/internal/stored"
	"github.com/capgate/capgate/internal/tenant"
	"github.com/capgate/capgate/internal/testkit/check"
	"github.com/capgate/capgate/internal/testkit/gatewaytest"
	"github.com/capgate/capgate/internal/toolschema"
	"github.com/capgate/capgate/internal/toolset"
	"github.com/capgate/capgate/policy/catalog"
)

// authored returns the tools of two capabilities, with a description.
func authored(t *testing.T, description string) map[string]catalog.Declaration {
	t.Helper()
	schema, err := toolschema.Compile([]byte(`{"type":"object","properties":{"to":{"type":"string"}}}`))
	check.Must(t, err)
	of := func(name string) catalog.Declaration {
		return catalog.Declaration{Manifest: &manifest.Manifest{Tools: []manifest.Tool{{Name: name,
			Description: description, Schema: schema}}}}
	}
	return map[string]catalog.Declaration{"mail": of("send"), "bank": of("pay")}
}

// managed returns a replica's toolsets, besides those of a configuration.
func managed(store stored.Store) *toolset.Manager {
	m := toolset.NewManager(store, func(text []byte) (*toolset.Toolset, error) {
		return config.ParseToolset("toolset", text)
	}, nil, slog.New(slog.DiscardHandler))
	m.SetFile([]toolset.Toolset{
		{Name: "filed", Tools: []toolset.Entry{{Capability: "mail", Tool: "send"}, {Capability: "bank", Tool: "pay"}}},
		{Name: "others", Tenants: []string{"globex"}, Tools: []toolset.Entry{{Capability: "bank", Tool: "*"}}},
	})
	return m
}

// plain is JSON without the blanks that protojson puts in at random.
func plain(s string) string { return strings.ReplaceAll(s, " ", "") }

type step struct {
	method, path, body string
	status             int
	want               string
}

func walk(t *testing.T, p *gatewaytest.Services, headers []string, steps []step) {
	t.Helper()
	for _, s := range steps {
		status, body := p.Ask(t, s.method, s.path, s.body, headers...)
		if want, not := strings.CutPrefix(s.want, "!"); status != s.status ||
			strings.Contains(plain(body), plain(want)) == not {
			t.Errorf("%s %s %s: %d %s\nwant %s", s.method, s.path, s.body, status, body, s.want)
		}
	}
}

// TestToolsetsByJSON: toolsets are set, listed and deleted, with the checks of the configuration, and a tool that has
// changed since is accepted after its difference was shown.
func TestToolsetsByJSON(t *testing.T) {
	t.Parallel()
	store := gatewaytest.OpenStore(t, "embedded")
	c := catalog.New(catalog.Options{Store: store.Catalog()})
	c.Replace(authored(t, "one"))
	c.Read(t.Context())
	m := managed(store.Stored(toolset.Kind))
	p := gatewaytest.ServeOperators(t, toolsets.New(toolsets.Config{Toolsets: m, Catalog: c,
		Versions: store.Versions()}))
	tool, _ := c.Describe("mail", "send")
	hash := tool.Hash.String()
	const path = "/v1/toolsets/support"
	entry := `{"capability":"mail","tool":"send","name":"reply","description":"Replies.","hash":"` + hash +
		`","arguments":"{\"to\":\"\\ud83d\\ude00\",\"n\":12345678901234567890}"}`
	walk(t, p, nil, []step{
		{"PUT", path, `{"tools":[` + entry + `]}`, 200, `"tenant":"default"`},
		{"PUT", path, `{"tools":[` + entry + `],"etag":"1"}`, 409, "TOOLSET_CHANGED"},
		{"PUT", path, `{"tools":[]}`, 400, "tools"},
		{"PUT", path, `{"tools":[{"capability":"m*","name":"x"}]}`, 400, "tools[0].name"},
		{"PUT", path, `{"tools":[{"capability":"mail","tool":"send","description":"x"}]}`, 400, "tools[0]"},
		{"PUT", path, `{"tools":[{"capability":"mail","tool":"send","arguments":"{\"a\":1,\"A\":2}"}]}`, 400, "case"},
		{"PUT", path, `{"tools":[{"capability":"mail","tool":"send","arguments":"{\"a\":[1e400]}"}]}`, 400,
			"tools.arguments"},
		{"PUT", path, `{"tools":[` + entry + `,` + entry + `]}`, 400, "already"},
		{"PUT", "/v1/toolsets/Support", `{"tools":[` + entry + `]}`, 400, "TOOLSET_INVALID"},
		{"PUT", "/v1/toolsets/filed", `{"tools":[` + entry + `]}`, 400, "TOOLSET_IN_FILE"},
		{"PUT", path, `{"tenant":"none","tools":[` + entry + `]}`, 404, "TENANT_UNKNOWN"},
		{"PUT", path, `{"tenant":"none","global":true,"tools":[` + entry + `]}`, 400, "global"},
		{"PUT", path, `{"tools":[{"capability":"` + strings.Repeat("x", toolset.MaxText) + `"}]}`, 400, "64KiB"},
		{"GET", path, "", 200, `"arguments":"{\"n\":12345678901234567890,\"to\":\"😀\"}","fixed":["n","to"],` +
			`"state":"current"`},
		{"GET", "/v1/toolsets", "", 200, `"total_size":3`},
		{"GET", "/v1/toolsets?query=reply", "", 200, `"total_size":1`},
		{"GET", "/v1/toolsets?page_size=1", "", 200, `{"toolsets":[{"name":"filed"`},
		{"GET", "/v1/toolsets?changed=true", "", 200, `{"toolsets":[]`},
		{"GET", "/v1/toolsets/none", "", 404, "TOOLSET_UNKNOWN"},
		{"DELETE", "/v1/toolsets/filed", "", 400, "TOOLSET_IN_FILE"},
		{"DELETE", "/v1/toolsets/none", "", 404, "TOOLSET_UNKNOWN"},
	})
	gatewaytest.KeepVersions(t, c, store.Versions(), "mail")
	c.Replace(authored(t, "two"))
	c.Read(t.Context())
	next, _ := c.Describe("mail", "send")
	accept := func(tool, hash string) string {
		return `{"capability":"mail","tool":"` + tool + `","hash":"` + hash + `"}`
	}
	walk(t, p, nil, []step{
		{"GET", path, "", 200, `"current":{"hash":"` + next.Hash.String() + `","description":"two"`},
		{"GET", path, "", 200, `"described":{"hash":"` + hash + `","description":"one"`},
		{"GET", "/v1/toolsets?changed=true", "", 200, `"changed_count":1`},
		{"POST", path + "/accept", accept("send", hash), 400, "TOOL_CHANGED"},
		{"POST", path + "/accept", accept("send", hash), 400, "toolsetsshowsupport"},
		{"POST", path + "/accept", accept("none", next.Hash.String()), 404, "TOOL_UNKNOWN"},
		{"POST", path + "/accept", accept("send", "12"), 400, "TOOLSET_INVALID"},
		{"POST", "/v1/toolsets/filed/accept", accept("send", next.Hash.String()), 400, "TOOLSET_IN_FILE"},
		{"POST", path + "/accept", accept("send", next.Hash.String()), 200, `"state":"current"`},
		{"GET", path, "", 200, `"description":"Replies.","hash":"` + next.Hash.String() + `"`},
		{"DELETE", path, "", 200, "{}"},
		{"GET", path, "", 404, "TOOLSET_UNKNOWN"},
	})
}

// byName authenticates operators by the header X-Operator: "NAME ROLE TENANT".
type byName struct{}

func (byName) Authenticate(r *http.Request) (*operator.Identity, bool, *call.Refusal) {
	words := strings.Fields(r.Header.Get("X-Operator"))
	if len(words) < 2 {
		return nil, false, nil
	}
	role, _ := operator.ParseRole(words[1])
	i := &operator.Identity{Name: words[0]}
	i.Grant(strings.Join(words[2:], ""), role)
	return i, true, nil
}

// TestToolsetsOfTenantsAreApart: an operator of a tenant sees and changes the toolsets of that tenant alone, and sees
// of others only what its callers see. The values of fixed arguments are for operators who may change the toolset.
func TestToolsetsOfTenantsAreApart(t *testing.T) {
	t.Parallel()
	store := gatewaytest.OpenStore(t, "embedded")
	c := catalog.New(catalog.Options{Store: store.Catalog()})
	c.Replace(authored(t, "one"))
	c.Read(t.Context())
	mail, err := tenant.ParseGrants([]string{"mail"})
	check.Must(t, err)
	directory := tenant.NewDirectory(nil)
	directory.Replace(map[string]*tenant.Settings{"acme": {ID: "acme", Capabilities: mail},
		"globex": {ID: "globex", Capabilities: mail}})
	m := managed(store.Stored(toolset.Kind))
	var by guard.Authenticator = byName{}
	p := gatewaytest.ServeGuarded(t, by, toolsets.New(toolsets.Config{Toolsets: m, Catalog: c,
		Tenants: &tenant.Roster{Directory: directory}}))
	as := func(operator string) []string { return []string{"X-Operator", operator} }
	const entry = `"tools":[{"capability":"mail","tool":"send","arguments":"{\"to\":\"us\"}"}]`
	walk(t, p, as("root admin"), []step{
		{"PUT", "/v1/toolsets/support", `{` + entry + `}`, 400, "TENANT_REQUIRED"},
		{"PUT", "/v1/toolsets/support", `{` + entry + `}`, 400, "--global"},
		{"PUT", "/v1/toolsets/pays", `{"tenant":"globex","tools":[{"capability":"bank"}]}`, 200,
			"thetenantglobexdoesnothavebank"},
		{"POST", "/v1/toolsets/pays/accept", `{"tenant":"globex","capability":"bank","tool":"*","hash":"` +
			strings.Repeat("0", 64) + `"}`, 404, "theentryhasnohash"},
		{"DELETE", "/v1/toolsets/pays?tenant=globex", "", 200, "{}"},
		{"PUT", "/v1/toolsets/support", `{"tenant":"globex",` + entry + `}`, 200, `"tenant":"globex"`},
		{"PUT", "/v1/toolsets/all", `{"global":true,` + entry + `}`, 200, `"global":true`},
		{"GET", "/v1/toolsets", "", 200, `"total_size":4`},
	})
	walk(t, p, as("ann admin acme"), []step{
		{"PUT", "/v1/toolsets/support", `{` + entry + `}`, 200, `"tenant":"acme"`},
		{"PUT", "/v1/toolsets/support", `{"tenant":"globex",` + entry + `}`, 403, "OPERATOR_TENANT"},
		{"PUT", "/v1/toolsets/all", `{"global":true,` + entry + `}`, 403, "OPERATOR_TENANT"},
		{"DELETE", "/v1/toolsets/support?tenant=globex", "", 403, "OPERATOR_TENANT"},
		{"DELETE", "/v1/toolsets/all?global=true", "", 403, "OPERATOR_TENANT"},
		{"DELETE", "/v1/toolsets/all", "", 404, "TOOLSET_UNKNOWN"},
		{"POST", "/v1/toolsets/all/accept", `{"capability":"mail","tool":"send","hash":"` + strings.Repeat("0", 64) +
			`"}`, 404, "TOOLSET_UNKNOWN"},
		{"GET", "/v1/toolsets/support?tenant=globex", "", 403, "OPERATOR_TENANT"},
		{"GET", "/v1/toolsets", "", 200, `"total_size":3`},
		{"GET", "/v1/toolsets", "", 200, "!globex"},
		{"GET", "/v1/toolsets", "", 200, "!bank"},
		{"GET", "/v1/toolsets?query=bank", "", 200, `{"toolsets":[]`},
		{"GET", "/v1/toolsets/others", "", 404, "TOOLSET_UNKNOWN"},
		{"GET", "/v1/toolsets/support", "", 200, `{\"to\":\"us\"}`},
		{"GET", "/v1/toolsets/all", "", 200, `"fixed":["to"]`},
		{"GET", "/v1/toolsets/all", "", 200, `!us\"`},
	})
	walk(t, p, as("bob viewer acme"), []step{
		{"PUT", "/v1/toolsets/support", `{` + entry + `}`, 403, "ROLE_MISSING"},
		{"DELETE", "/v1/toolsets/support", "", 403, "ROLE_MISSING"},
		{"POST", "/v1/toolsets/support/accept", "{}", 403, "ROLE_MISSING"},
		{"GET", "/v1/toolsets/support", "", 200, `"fixed":["to"]`},
		{"GET", "/v1/toolsets/support", "", 200, `!us\"`},
	})
}

// TestToolsetsOfFormerTenants: operators do not see the toolsets of a tenant that does not exist any more, or that
// belong to an earlier tenant of the same name.
func TestToolsetsOfFormerTenants(t *testing.T) {
	t.Parallel()
	store := gatewaytest.OpenStore(t, "embedded")
	c := catalog.New(catalog.Options{Store: store.Catalog()})
	c.Replace(authored(t, "one"))
	directory, acme := tenant.NewDirectory(nil), &tenant.Settings{ID: "acme"}
	directory.Replace(map[string]*tenant.Settings{"acme": acme, "globex": {ID: "globex"}})
	m := managed(store.Stored(toolset.Kind))
	p := gatewaytest.ServeOperators(t, toolsets.New(toolsets.Config{Toolsets: m, Catalog: c,
		Tenants: &tenant.Roster{Directory: directory}}))
	check.Must(t, m.Write(t.Context(), &stored.Record{Tenant: "acme", UID: "earlier", Name: "earlier",
		Text: []byte(`{"name":"earlier","tools":[{"capability":"mail"}]}`)}, ""))
	walk(t, p, nil, []step{
		{"PUT", "/v1/toolsets/kept", `{"tenant":"acme","tools":[{"capability":"mail"}]}`, 200, `"tenant":"acme"`},
		{"PUT", "/v1/toolsets/left", `{"tenant":"globex","tools":[{"capability":"mail"}]}`, 200, `"tenant":"globex"`},
		{"GET", "/v1/toolsets?query=left", "", 200, `"total_size":1`},
	})
	directory.Replace(map[string]*tenant.Settings{"acme": acme})
	walk(t, p, nil, []step{
		{"GET", "/v1/toolsets?query=kept", "", 200, `"total_size":1`},
		{"GET", "/v1/toolsets?query=left", "", 200, `{"toolsets":[]`},
		{"GET", "/v1/toolsets?query=earlier", "", 200, `{"toolsets":[]`},
		{"GET", "/v1/toolsets", "", 200, `"total_size":3`},
	})
}
