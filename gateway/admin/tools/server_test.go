package tools_test

import (
	"context"
	"strings"
	"testing"

	"github.com/capgate/capgate/gateway/admin/tools"
	"github.com/capgate/capgate/internal/call"
	"github.com/capgate/capgate/internal/manifest"
	"github.com/capgate/capgate/internal/testkit/check"
	"github.com/capgate/capgate/internal/testkit/gatewaytest"
	"github.com/capgate/capgate/internal/toolschema"
	"github.com/capgate/capgate/internal/toolset"
	"github.com/capgate/capgate/policy/catalog"
)

// authored returns the tools of a manifest, with a description.
func authored(t *testing.T, description string) map[string]catalog.Declaration {
	t.Helper()
	schema := compiled(t, `{"type": "object"}`)
	return map[string]catalog.Declaration{
		"bare":    {},
		"dynamic": {Manifest: &manifest.Manifest{Dynamic: true, DiscoveryTool: "list_tools"}},
		"weather": {Manifest: &manifest.Manifest{Tools: []manifest.Tool{
			{Name: "get.it-now_1", Description: description, Schema: schema, Output: output(t, description),
				Recommends:  true,
				Recommended: call.Ask},
			{Name: "other", Description: "the same", Schema: schema},
		}}},
	}
}

func compiled(t *testing.T, text string) *toolschema.Schema {
	t.Helper()
	schema, err := toolschema.Compile([]byte(text))
	check.Must(t, err)
	return schema
}

// output returns the schema of the result of the tool that is authored with a description.
func output(t *testing.T, description string) *toolschema.Schema {
	t.Helper()
	return compiled(t, `{"title":"`+description+`"}`)
}

// plain is JSON without the blanks that protojson puts in at random.
func plain(s string) string { return strings.ReplaceAll(s, " ", "") }

// TestForgedVersion: a stored version without the accepted hash is not shown as the accepted one.
func TestForgedVersion(t *testing.T) {
	t.Parallel()
	store := gatewaytest.OpenStore(t, "embedded")
	c := catalog.New(catalog.Options{Store: store.Catalog()})
	for _, description := range []string{"one", "another"} {
		c.Replace(authored(t, description))
		c.Read(t.Context())
	}
	for _, v := range []catalog.Version{{Description: "forged", Schema: []byte(`{"type":"object"}`)},
		{Description: "one", Schema: []byte(`{`)}, {Description: "one", Schema: []byte(`{"type":"object"}`)},
		{Description: "one", Schema: []byte(`{"type":"object"}`), Output: []byte(`{"title":"another"}`)}, {}} {
		check.Must(t, store.Versions().Save(t.Context(), "weather", map[string]catalog.Version{"get.it-now_1": v}))
		if found := c.AcceptedVersions(t.Context(), store.Versions(), "weather"); len(found) > 0 {
			t.Errorf("%v", found)
		}
	}
}

func TestCatalogByJSON(t *testing.T) {
	t.Parallel()
	store := gatewaytest.OpenStore(t, "embedded")
	c := catalog.New(catalog.Options{Store: store.Catalog()})
	c.Replace(authored(t, "one"))
	c.Read(t.Context())
	gatewaytest.KeepVersions(t, c, store.Versions(), "weather")
	c.Replace(authored(t, "another"))
	c.Read(t.Context())
	d := catalog.NewDiscoverer(c, func(context.Context, catalog.DiscoveryCall) (catalog.Answer, error) {
		return catalog.Answer{Tools: []byte(`[{"name": "found", "description": "x", "input_schema": {}}]`)}, nil
	})
	sets := toolset.New([]toolset.Toolset{{Name: "sets", Tools: []toolset.Entry{
		{Capability: "weather", Tool: "get.it-now_1", Hash: toolschema.Hash{1}},
		{Capability: "weather", Tool: "other", Hash: toolschema.Hash{2}},
	}}})
	p := gatewaytest.ServeOperators(t, tools.New(c, d, store.Versions(), sets, nil, nil))
	tool, _ := c.Describe("weather", "get.it-now_1")
	other, _ := c.Describe("weather", "other")
	accepted := tool.Schema.Hash("one", output(t, "one"))
	const path = "/v1/capabilities/weather/tools/get.it-now_1:accept"
	for _, step := range []struct {
		method, path, body string
		status             int
		want               string
	}{
		{"GET", "/v1/capabilities", "", 200,
			`{"capability":"weather","source":"manifest","known":true,"tool_count":2,"drifted_count":1,` +
				`"drift_guard":true,"tools":[],"name":"capabilities/weather"}`},
		{"GET", "/v1/capabilities?page_size=1", "", 200,
			`{"capability":"bare","source":"unknown","drift_guard":true,"tools":[],"name":"capabilities/bare"}],` +
				`"next_page_token":"YmFyZQ"`},
		{"GET", "/v1/capabilities?page_size=1&page_token=YmFyZQ", "", 200,
			`{"capability":"dynamic","source":"discovered","drift_guard":true,"tools":[],` +
				`"name":"capabilities/dynamic"}],"next_page_token":`},
		{"GET", "/v1/capabilities?query=WEA", "", 200, `{"capabilities":[{"capability":"weather"`},
		{"GET", "/v1/capabilities?query=same", "", 200, `{"capabilities":[{"capability":"weather"`},
		{"GET", "/v1/capabilities?query=none", "", 200, `{"capabilities":[]}`},
		{"GET", "/v1/tools", "", 200,
			`{"tools":[{"capability":"weather","tool":"get.it-now_1","description":"another",` +
				`"recommended_policy":"ask","drifted":true,"toolset_count":1},{"capability":"weather","tool":"other",`},
		{"GET", "/v1/tools?drifted=true", "", 200, `"total_size":2`},
		{"GET", "/v1/tools?query=weather+SAME", "", 200, `{"tools":[{"capability":"weather","tool":"other",`},
		{"GET", "/v1/tools?query=other&capability=bare", "", 200, `{"tools":[]}`},
		{"GET", "/v1/tools?page_size=1", "", 200, `"next_page_token":"d2VhdGhlcgBnZXQuaXQtbm93XzE","total_size":2`},
		{"GET", "/v1/tools?page_size=1&page_token=d2VhdGhlcgBnZXQuaXQtbm93XzE", "", 200, `"tool":"other"`},
		{"GET", "/v1/tools?query=" + strings.Repeat("q", 257), "", 400, "CATALOG_INVALID"},
		{"GET", "/v1/capabilities?page_size=1001", "", 400, "CATALOG_INVALID"},
		{"GET", "/v1/capabilities?page_token=!", "", 400, "CATALOG_INVALID"},
		{"GET", "/v1/capabilities/none", "", 404, "CAPABILITY_UNKNOWN"},
		{"GET", "/v1/capabilities/weather", "", 200,
			`{"name":"get.it-now_1","description":"another","recommended_policy":"ask","hash":"` +
				tool.Hash.String() + `","drifted":true,"input_schema":"{\"type\":\"object\"}","accepted":{"hash":"` +
				accepted.String() + `","description":"one","input_schema":"{\"type\":\"object\"}",` +
				`"output_schema":"{\"title\":\"one\"}"},"output_schema":"{\"title\":\"another\"}","unchecked":[],` +
				`"toolsets":[{"name":"sets","source":"file"}]}`},
		{"POST", path, `{"hash":"` + other.Hash.String() + `"}`, 400, "TOOL_CHANGED"},
		{"POST", path, `{"hash":"12"}`, 400, "CATALOG_INVALID"},
		{"POST", path, `{}`, 400, "CATALOG_INVALID"},
		{"POST", "/v1/capabilities/weather/tools/none:accept", `{"hash":"` + tool.Hash.String() + `"}`, 404,
			"TOOL_UNKNOWN"},
		{"POST", "/v1/capabilities/none/tools/x:accept", `{"hash":"` + tool.Hash.String() + `"}`, 404,
			"CAPABILITY_UNKNOWN"},
		{"POST", path, `{"hash":"` + tool.Hash.String() + `"}`, 200, `"hash":"` + tool.Hash.String() +
			`","input_schema"`},
		{"GET", "/v1/capabilities", "", 200,
			`{"capability":"weather","source":"manifest","known":true,"tool_count":2,"drift_guard":true,"tools":[],` +
				`"name":"capabilities/weather"}`},
		{"POST", "/v1/capabilities/weather:discover", `{}`, 400, "TOOLS_NOT_DISCOVERED"},
		{"POST", "/v1/capabilities/none:discover", `{}`, 404, "CAPABILITY_UNKNOWN"},
		{"POST", "/v1/capabilities/dynamic:discover", `{}`, 200, `"name":"found"`},
		{"GET", "/v1/capabilities/dynamic", "", 200, `"source":"discovered","known":true,"tool_count":1`},
	} {
		if status, body := p.Ask(t, step.method, step.path, step.body); status != step.status ||
			!strings.Contains(plain(body), plain(step.want)) {
			t.Errorf("%s %s %s: %d %s", step.method, step.path, step.body, status, body)
		}
	}
	if status, _ := p.Ask(t, "POST", path, `{}`, "Origin", "https://evil.example", "Sec-Fetch-Site",
		"cross-site"); status != 403 {
		t.Errorf("from another site's page: %d", status)
	}
}
