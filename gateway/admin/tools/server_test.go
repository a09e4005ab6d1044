package tools_test

import (
	"context"
	"strings"
	"testing"

	"github.com/capgate/capgate/gateway"
	"github.com/capgate/capgate/gateway/admin/tools"
	"github.com/capgate/capgate/internal/call"
	"github.com/capgate/capgate/internal/manifest"
	"github.com/capgate/capgate/internal/testkit/gatewaytest"
	"github.com/capgate/capgate/internal/toolschema"
	"github.com/capgate/capgate/policy/catalog"
)

// authored are the tools of a manifest, with a description.
func authored(t *testing.T, description string) map[string]catalog.Declaration {
	t.Helper()
	schema, err := toolschema.Compile([]byte(`{"type": "object"}`))
	if err != nil {
		t.Fatal(err)
	}
	return map[string]catalog.Declaration{
		"bare":    {},
		"dynamic": {Manifest: &manifest.Manifest{Dynamic: true, DiscoveryTool: "list_tools"}},
		"weather": {Manifest: &manifest.Manifest{Tools: []manifest.Tool{
			{Name: "get.it-now_1", Description: description, Schema: schema, Recommends: true, Recommended: call.Ask},
			{Name: "other", Description: "the same", Schema: schema},
		}}},
	}
}

// plain is JSON without the blanks that protojson puts in at random.
func plain(s string) string { return strings.ReplaceAll(s, " ", "") }

func TestCatalogByJSON(t *testing.T) {
	t.Parallel()
	c := catalog.New(catalog.Options{Store: gatewaytest.OpenStore(t, "embedded").Catalog()})
	for _, description := range []string{"one", "another"} {
		c.Replace(authored(t, description))
		c.Read(t.Context())
	}
	d := catalog.NewDiscoverer(c, func(context.Context, catalog.DiscoveryCall) ([]byte, error) {
		return []byte(`[{"name": "found", "description": "x", "input_schema": {}}]`), nil
	})
	p := gatewaytest.ServeOperators(t, tools.New(c, d, gateway.GRPCStatus))
	tool, _ := c.Describe("weather", "get.it-now_1")
	other, _ := c.Describe("weather", "other")
	const path = "/v1/capabilities/weather/tools/get.it-now_1:accept"
	for _, step := range []struct {
		method, path, body string
		status             int
		want               string
	}{
		{"GET", "/v1/capabilities", "", 200,
			`{"capability":"weather","source":"manifest","known":true,"tool_count":2,"drifted_count":1,"drift_guard":true,"name":"capabilities/weather"}`},
		{"GET", "/v1/capabilities?page_size=1", "", 200,
			`{"capability":"bare","source":"unknown","drift_guard":true,"name":"capabilities/bare"}],"next_page_token":"YmFyZQ"`},
		{"GET", "/v1/capabilities?page_size=1&page_token=YmFyZQ", "", 200,
			`{"capability":"dynamic","source":"discovered","drift_guard":true,"name":"capabilities/dynamic"}],"next_page_token":`},
		{"GET", "/v1/capabilities?page_size=1001", "", 400, "CATALOG_INVALID"},
		{"GET", "/v1/capabilities?page_token=!", "", 400, "CATALOG_INVALID"},
		{"GET", "/v1/capabilities/none", "", 404, "CAPABILITY_UNKNOWN"},
		{"GET", "/v1/capabilities/weather", "", 200,
			`{"name":"get.it-now_1","description":"another","recommended_policy":"ask","hash":"` +
				tool.Hash.String() + `","drifted":true}`},
		{"POST", path, `{"hash":"` + other.Hash.String() + `"}`, 400, "TOOL_CHANGED"},
		{"POST", path, `{"hash":"12"}`, 400, "CATALOG_INVALID"},
		{"POST", path, `{}`, 400, "CATALOG_INVALID"},
		{"POST", "/v1/capabilities/weather/tools/none:accept", `{"hash":"` + tool.Hash.String() + `"}`, 404, "TOOL_UNKNOWN"},
		{"POST", "/v1/capabilities/none/tools/x:accept", `{"hash":"` + tool.Hash.String() + `"}`, 404, "CAPABILITY_UNKNOWN"},
		{"POST", path, `{"hash":"` + tool.Hash.String() + `"}`, 200, `"hash":"` + tool.Hash.String() + `"},`},
		{"GET", "/v1/capabilities", "", 200,
			`{"capability":"weather","source":"manifest","known":true,"tool_count":2,"drift_guard":true,"name":"capabilities/weather"}`},
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
