package toolsets_test

import (
	"encoding/json"
	"testing"

	"github.com/capgate/capgate/gateway/admin/toolsets"
	"github.com/capgate/capgate/internal/stored"
	"github.com/capgate/capgate/internal/tenant"
	"github.com/capgate/capgate/internal/testkit/check"
	"github.com/capgate/capgate/internal/testkit/gatewaytest"
	"github.com/capgate/capgate/internal/toolset"
	"github.com/capgate/capgate/policy/catalog"
)

// TestFixedArgumentsKeepTheirValues: the text of a toolset is read as YAML, and its fixed arguments have the same
// characters and digits there.
func TestFixedArgumentsKeepTheirValues(t *testing.T) {
	t.Parallel()
	store := gatewaytest.OpenStore(t, "embedded")
	c := catalog.New(catalog.Options{Store: store.Catalog()})
	p := gatewaytest.ServeOperators(t, toolsets.New(toolsets.Config{
		Toolsets: managed(store.Stored(toolset.Kind)), Catalog: c}))
	for _, value := range []string{`"a\u0085b"`, `"\u007f\u009f"`, `"\ufeffx\ufeff"`, `"\ufffe\uffff"`,
		`"\u2028\u2029"`,
		`"\\u0085"`, `"\u0000\u001f"`, `"😀"`, `"~"`, `"0x10"`, `"2027-01-31"`, `"<<"`, `1e5`, `-0`, `1E-7`, `1.50`,
		`12345678901234567890123`, `null`, `{"x":[true,""],"1":{"":" "}}`} {
		arguments := `{"a":` + value + `}`
		body, err := json.Marshal(map[string]any{"tools": []any{map[string]any{"capability": "mail", "tool": "send",
			"arguments": arguments}}})
		check.Must(t, err)
		status, text := p.Ask(t, "PUT", "/v1/toolsets/support", string(body))
		var got struct {
			Tools []struct{ Arguments string }
		}
		check.Must(t, json.Unmarshal([]byte(text), &got))
		if status != 200 || len(got.Tools) != 1 {
			t.Fatalf("%s: %d %s", arguments, status, text)
		}
		var before, after map[string]json.RawMessage
		check.Must(t, json.Unmarshal([]byte(arguments), &before))
		check.Must(t, json.Unmarshal([]byte(got.Tools[0].Arguments), &after))
		var a, b any
		_, _ = json.Unmarshal(before["a"], &a), json.Unmarshal(after["a"], &b)
		x, _ := json.Marshal(a)
		y, _ := json.Marshal(b)
		if string(x) != string(y) {
			t.Errorf("%s became %s", arguments, got.Tools[0].Arguments)
		}
	}
}

// TestLaterTenantHasNoEarlierToolsets: an operator of a tenant does not see, or accept the tools of, a toolset of an
// earlier tenant of the same name.
func TestLaterTenantHasNoEarlierToolsets(t *testing.T) {
	t.Parallel()
	store := gatewaytest.OpenStore(t, "embedded")
	c := catalog.New(catalog.Options{Store: store.Catalog()})
	c.Replace(authored(t, "one"))
	c.Read(t.Context())
	tool, _ := c.Describe("mail", "send")
	hash := tool.Hash.String()
	directory := tenant.NewDirectory(nil)
	directory.Replace(map[string]*tenant.Settings{"acme": {ID: "acme"}})
	m := managed(store.Stored(toolset.Kind))
	p := gatewaytest.ServeGuarded(t, byName{}, toolsets.New(toolsets.Config{Toolsets: m, Catalog: c,
		Tenants: &tenant.Roster{Directory: directory}}))
	check.Must(t, m.Write(t.Context(), &stored.Record{Tenant: "acme", UID: "earlier", Name: "support",
		Text: []byte(`{"name":"support","tools":[{"capability":"mail","tool":"send","hash":"` + hash +
			`","arguments":{"to":"secret"}}]}`)}, ""))
	walk(t, p, []string{"X-Operator", "ann admin acme"}, []step{
		{"GET", "/v1/toolsets", "", 200, "!support"},
		{"GET", "/v1/toolsets/support", "", 404, "TOOLSET_UNKNOWN"},
		{"POST", "/v1/toolsets/support/accept", `{"capability":"mail","tool":"send","hash":"` + hash + `"}`, 404,
			"TOOLSET_UNKNOWN"},
		{"PUT", "/v1/toolsets/support", `{"tools":[{"capability":"mail"}]}`, 200, "!secret"},
	})
}
