package openapi_test

import (
	"encoding/json"
	"fmt"
	"reflect"
	"regexp"
	"strings"
	"testing"

	"go.yaml.in/yaml/v4"

	"github.com/capgate/capgate/internal/testkit/check"
	"github.com/capgate/capgate/internal/toolschema"
	"github.com/capgate/capgate/openapi"
)

func documents(t *testing.T) *openapi.Documents {
	t.Helper()
	d, err := openapi.New()
	check.Must(t, err)
	return d
}

// object reads JSON.
func object(t *testing.T, text []byte) map[string]any {
	t.Helper()
	var o map[string]any
	if err := json.Unmarshal(text, &o); err != nil {
		t.Fatalf("%v: %s", err, text)
	}
	return o
}

// at is what is below some names.
func at(t *testing.T, o map[string]any, names ...string) any {
	t.Helper()
	var v any = o
	for _, name := range names {
		m, ok := v.(map[string]any)
		if !ok || m[name] == nil {
			t.Fatalf("nothing at %q of %q; ok %+v", name, names, ok)
		}
		v = m[name]
	}
	return v
}

// write makes a document of one tool, from a schema that a manifest may have.
func write(t *testing.T, schema string) map[string]any {
	t.Helper()
	if len(schema) < 4<<10 { // it takes long over long ones
		if _, err := toolschema.Compile([]byte(schema)); err != nil {
			t.Fatalf("no manifest has this: %v", err)
		}
	}
	text, err := documents(t).Write([]openapi.Capability{{ID: "c",
		Tools: []openapi.Tool{{Name: "t", Schema: object(t, []byte(schema))}}}}, false)
	check.Must(t, err)
	return object(t, text)
}

func TestAToolIsAnOperation(t *testing.T) {
	t.Parallel()
	schema := object(t, []byte(`{"type":"object","properties":{"n":{"type":"integer","maximum":9}},"required":["n"],"additionalProperties":false}`))
	text, err := documents(t).Write([]openapi.Capability{
		{ID: "weather", Tools: []openapi.Tool{{Name: "now", Description: "Says <b>it</b> ![x](http://x)",
			Schema: schema, Policy: "ask", Terminal: true}}},
		{ID: "we/ä{r}", Tools: []openapi.Tool{{Name: "now", Schema: map[string]any{}}, {Name: "t"}}},
		{ID: "we___r_", Tools: []openapi.Tool{{Name: "t"}}},
		{ID: "none"},
	}, false)
	check.Must(t, err)
	doc := object(t, text)
	if !strings.HasPrefix(string(text), `{"openapi":"3.1.0","info":{`) || doc["x-tool-operation"] != nil ||
		doc["x-capgate-left-out"] != nil {
		t.Errorf("%.200s; doc %+v", text, doc)
	}
	post, _ := at(t, doc, "paths", "/v1/capabilities/weather/tools/now", "post").(map[string]any)
	if post["operationId"] != "weather_now" || post["summary"] != "now" ||
		post["description"] != `Says &lt;b>it&lt;/b> !\[x](http://x)` ||
		post["x-capgate-policy"] != "ask" || post["x-capgate-terminal-on-success"] != true {
		t.Errorf("%v", post)
	}
	if ref := at(t, post, "requestBody", "content", "application/json", "schema",
		"$ref"); ref != "#/components/schemas/weather_now" {
		t.Error(ref)
	}
	if got := at(t, doc, "components", "schemas", "weather_now"); !reflect.DeepEqual(got, any(schema)) {
		t.Errorf("%v", got)
	}
	at(t, post, "responses", "4XX")
	ids := map[any]bool{}
	for path, item := range at(t, doc, "paths").(map[string]any) {
		for _, operation := range item.(map[string]any) {
			id := operation.(map[string]any)["operationId"]
			if ids[id] {
				t.Errorf("%s: operationId %v is there twice", path, id)
			}
			ids[id] = true
		}
	}
	at(t, doc, "paths", "/v1/capabilities/we%2F%C3%A4%7Br%7D/tools/now", "post")
	if got := at(t, doc, "components", "schemas", "we___r__now"); !reflect.DeepEqual(got,
		any(map[string]any{"type": "object", "additionalProperties": true})) {
		t.Error(got)
	}
	at(t, doc, "components", "schemas", "we___r__t")
	at(t, doc, "components", "schemas", "we___r__t_2")
}

// TestNamesAreIdentifiers: generators of clients make identifiers of names, in any case and without separators.
func TestNamesAreIdentifiers(t *testing.T) {
	t.Parallel()
	text, err := documents(t).Write([]openapi.Capability{
		{ID: "3d", Tools: []openapi.Tool{{Name: "render"}, {Name: "天気"}, {Name: "天候"}}},
		{ID: "a", Tools: []openapi.Tool{{Name: "getIt"}, {Name: "get_it"}, {Name: "get-it"}, {Name: "get it 2"},
			{Name: "b.c"}}},
		{ID: "a-b", Tools: []openapi.Tool{{Name: "c"}}},
		{ID: "gateway", Tools: []openapi.Tool{{Name: "invoke"}}},
		{ID: "limits", Tools: []openapi.Tool{{Name: "limit"}}},
	}, false)
	check.Must(t, err)
	doc, identifier := object(t, text), regexp.MustCompile(`^[A-Za-z][A-Za-z0-9_]*$`)
	short := func(name string) string { return strings.ToLower(strings.ReplaceAll(name, "_", "")) }
	ids, schemas := map[string]bool{}, map[string]bool{}
	for path, item := range at(t, doc, "paths").(map[string]any) {
		for method, operation := range item.(map[string]any) {
			id := operation.(map[string]any)["operationId"].(string)
			if !identifier.MatchString(id) || ids[short(id)] {
				t.Errorf("%s %s: the operationId %s is no identifier, or not the only one", method, path, id)
			}
			ids[short(id)] = true
		}
	}
	for name := range at(t, doc, "components", "schemas").(map[string]any) {
		if !identifier.MatchString(name) || schemas[short(name)] {
			t.Errorf("the schema %s is no identifier, or not the only one", name)
		}
		schemas[short(name)] = true
	}
	for _, name := range []string{"capability_3d_render", "a_getIt", "a_get_it_2", "a_b_c", "gateway_invoke_2"} {
		at(t, doc, "components", "schemas", name)
	}
}

// TestReferencesLeadIntoTheDocument, or are no more.
func TestReferencesLeadIntoTheDocument(t *testing.T) {
	t.Parallel()
	const here = `#/components/schemas/c_t`
	for name, test := range map[string]struct{ schema, want string }{
		"definitions": {`{"type":"object","properties":{"a":{"$ref":"#/$defs/x"}},"$defs":{"x":{"type":"string"}}}`,
			`{"type":"object","properties":{"a":{"$ref":"` + here + `_x"}},"$defs":{"c_t_x":{"type":"string"}}}`},
		"to itself": {`{"type":"object","properties":{"a":{"$ref":"#"}}}`,
			`{"type":"object","properties":{"a":{"$ref":"` + here + `"}}}`},
		"odd names":      {`{"type":"object","properties":{"a":{"$ref":"#/$defs/x%20~1~0%25"}},"$defs":{"x /~%":{"type":"string"}}}`, `{"type":"object","properties":{"a":{"$ref":"` + here + `_x____"}},"$defs":{"c_t_x____":{"type":"string"}}}`},
		"an older draft": {`{"$schema":"http://json-schema.org/draft-07/schema#","type":"object","properties":{"a":{"$ref":"#/definitions/x"},"definitions":{"items":[{"type":"null"}],"additionalItems":false},"b":{"$ref":"#/properties/definitions/items/0"}},"definitions":{"x":{"type":"string"}}}`, `{"type":"object","properties":{"a":{"$ref":"` + here + `_x"},"definitions":{"prefixItems":[{"type":"null"}],"items":{"not":{}}},"b":{"$ref":"` + here + `/properties/definitions/prefixItems/0"}},"$defs":{"c_t_x":{"type":"string"}}}`},
		"the oldest":     {`{"$schema":"http://json-schema.org/draft-04/schema#","type":"object","properties":{"n":{"minimum":1,"exclusiveMinimum":true,"maximum":2,"exclusiveMaximum":false}}}`, `{"type":"object","properties":{"n":{"exclusiveMinimum":1,"maximum":2}}}`},
		"by name":        {`{"type":"object","properties":{"a":{"$ref":"#x"},"b":{"$dynamicRef":"#y"}},"$defs":{"x":{"$anchor":"x","type":"string"},"y":{"$dynamicAnchor":"y","type":"null"}}}`, `{"type":"object","properties":{"a":{"$ref":"` + here + `_x"},"b":{"$ref":"` + here + `_y"}},"$defs":{"c_t_x":{"type":"string"},"c_t_y":{"type":"null"}}}`},
		"a resource":     {`{"type":"object","properties":{"a":{"$id":"tool:///a","properties":{"b":{"$ref":"#/$defs/x"}},"$defs":{"x":{"type":"string"}}},"c":{"$ref":"tool:///a"}}}`, `{"type":"object","properties":{"a":{"properties":{"b":{"$ref":"` + here + `_x"}}},"c":{"$ref":"` + here + `/properties/a"}},"$defs":{"c_t_x":{"type":"string"}}}`},
		"in circles":     {`{"type":"object","properties":{"a":{"$ref":"#/$defs/x"}},"$defs":{"x":{"$ref":"#/$defs/y"},"y":{"$ref":"#/$defs/z"},"z":{"properties":{"x":{"$ref":"#/$defs/x"}}}}}`, `{"type":"object","properties":{"a":{"$ref":"` + here + `_x"}},"$defs":{"c_t_x":{"$ref":"` + here + `_y"},"c_t_y":{"$ref":"` + here + `_z"},"c_t_z":{"properties":{"x":{"$ref":"` + here + `_x"}}}}}`},
		"names of fields": {`{"type":"object","properties":{"$ref":{"type":"string"},"$defs":{"type":"null"}}}`,
			`{"type":"object","properties":{"$ref":{"type":"string"},"$defs":{"type":"null"}}}`},
		"data": {`{"type":"object","default":{"$ref":"http://evil/"},"examples":[{"a":[{"$ref":"file:///etc/passwd"}]}],"enum":[{"a":1}]}`, `{"type":"object","enum":[{"a":1}]}`},
		"unknown": {`{"type":"object","x-y":{"$ref":"http://evil/"},"externalDocs":{"url":"http://evil/"}}`,
			`{"type":"object","additionalProperties":true}`},
		"true and false":      {`{"type":"object","properties":{"a":true,"b":false},"additionalProperties":false,"not":{"items":true}}`, `{"type":"object","properties":{"a":{},"b":{"not":{}}},"additionalProperties":false,"not":{"items":{}}}`},
		"nothing":             {`{}`, `{"type":"object","additionalProperties":true}`},
		"objects of anything": {`{"properties":{"a":{"type":"object"},"b":{"type":"object","properties":{}},"c":{"type":"object","enum":[{}]}}}`, `{"type":"object","properties":{"a":{"type":"object","additionalProperties":true},"b":{"type":"object","properties":{}},"c":{"type":"object","enum":[{}]}}}`},
		"objects that others close": {`{"allOf":[{"type":"object"}],"unevaluatedProperties":false}`,
			`{"type":"object","allOf":[{"type":"object"}],"unevaluatedProperties":{"not":{}}}`},
	} {
		doc := write(t, test.schema)
		got, want := at(t, doc, "components", "schemas", "c_t").(map[string]any), object(t, []byte(test.want))
		lifted, _ := want["$defs"].(map[string]any) // they are components now
		delete(want, "$defs")
		for name, schema := range lifted {
			if component := at(t, doc, "components", "schemas", name); !reflect.DeepEqual(component, schema) {
				t.Errorf("%s: %s is %v", name, name, component)
			}
		}
		if !reflect.DeepEqual(got, want) {
			text, _ := json.Marshal(got)
			t.Errorf("%s: %s\nwant %s", name, text, test.want)
		}
	}
}

// TestGeneratorsTakeTheDocuments: generators of clients fail at names that two components of any kind have, as they
// make one type of each, follow references to components alone, and check the bounds that the documents have.
func TestGeneratorsTakeTheDocuments(t *testing.T) {
	t.Parallel()
	const recursive = `{"type":"object","properties":{"a":{"$ref":"#/$defs/a.B"},"b":{"$ref":"#/$defs/a_b"}},
		"$defs":{"a.B":{"type":"object","properties":{"again":{"$ref":"#/$defs/a.B"},"root":{"$ref":"#"}},
		"$defs":{"inner":{"type":"null"}}},"a_b":{"properties":{"x":{"$ref":"#/$defs/a.B/properties/again"}}}}}`
	tool := openapi.Tool{Name: "t", Schema: object(t, []byte(recursive))}
	tools := []openapi.Tool{tool, {Name: "t_a_b"}, tool}
	callers, err := documents(t).Write([]openapi.Capability{{ID: "c", Tools: tools}}, false)
	check.Must(t, err)
	for name, text := range map[string][]byte{"callers": callers, "admin": openapi.Admin()} {
		doc, names := object(t, text), map[string]bool{}
		for kind, of := range at(t, doc, "components").(map[string]any) {
			for component := range of.(map[string]any) {
				short := strings.ToLower(strings.ReplaceAll(component, "_", ""))
				if names[short] {
					t.Errorf("%s: the name of %s/%s is there twice", name, kind, component)
				}
				names[short] = true
			}
		}
		for _, ref := range refs(doc) {
			if strings.Contains(ref, "$defs") {
				t.Errorf("%s: %s", name, ref)
			}
		}
		if defs := regexp.MustCompile(`"\$defs":`).Find(text); defs != nil {
			t.Errorf("%s has definitions below a component", name)
		}
		for path, item := range at(t, doc, "paths").(map[string]any) {
			for method, operation := range item.(map[string]any) {
				all, _ := operation.(map[string]any)["parameters"].([]any)
				for _, p := range all {
					p := p.(map[string]any)
					of, _ := p["schema"].(map[string]any)
					if p["name"] == "page_size" && (of["minimum"] == nil || of["maximum"] == nil) {
						t.Errorf("%s: %s %s: page_size has no bounds", name, method, path)
					}
				}
			}
		}
	}
}

// TestReferencesThatLeadNowhere: a schema that no manifest can have, as it does not compile, does no harm either.
func TestReferencesThatLeadNowhere(t *testing.T) {
	t.Parallel()
	for _, schema := range []string{
		`{"properties":{"a":{"$ref":"http://evil/"}}}`, `{"properties":{"a":{"$ref":"/etc/passwd"}}}`,
		`{"properties":{"a":{"$ref":"#/components/schemas/Tenant"}}}`,
		`{"properties":{"a":{"$ref":"#/%zz"}}}`, `{"properties":{"a":{"$ref":""}}}`,
		`{"properties":{"a":{"$ref":"#/properties/a"}}}`,
		`{"properties":{"a":{"$ref":"#/$defs/b"}},"$defs":{"b":{"$ref":"#/nope"}}}`,
		`{"properties":{"a":{"$ref":"#/$defs"}},"$defs":{"b":{}}}`,
		`{"properties":{"a":{"$ref":"#/enum/0"}},"enum":[1]}`, `{"properties":{"a":{"$ref":"#/allOf/7"}},"allOf":[]}`,
		`{"properties":{"a":{"$ref":7}}}`,
	} {
		text, err := documents(t).Write([]openapi.Capability{{ID: "c",
			Tools: []openapi.Tool{{Name: "t", Schema: object(t, []byte(schema))}}}}, false)
		check.Must(t, err)
		for _, ref := range refs(at(t, object(t, text), "components", "schemas", "c_t")) {
			if ref != "#/components/schemas/c_t_b" {
				t.Errorf("%s: %s", schema, ref)
			}
		}
	}
}

func refs(v any) (all []string) {
	switch v := v.(type) {
	case map[string]any:
		for name, child := range v {
			if ref, ok := child.(string); ok && name == "$ref" {
				all = append(all, ref)
			}
			all = append(all, refs(child)...)
		}
	case []any:
		for _, child := range v {
			all = append(all, refs(child)...)
		}
	}
	return all
}

// TestSchemasAreBounded, as they are and as what they become.
func TestSchemasAreBounded(t *testing.T) {
	t.Parallel()
	var laughs strings.Builder
	for i := range 64 {
		fmt.Fprintf(&laughs, `"l%d":{"properties":{"a":{"$ref":"#/$defs/l%d"},"b":{"$ref":"#/$defs/l%d"}}},`, i, i+1, i+
			1)
	}
	deep := strings.Repeat(`{"items":`, 90) + `{}` + strings.Repeat(`}`, 90)
	for name, test := range map[string]struct {
		schema string
		shown  bool
	}{
		"laughs": {`{"type":"object","properties":{"x":{"$ref":"#/$defs/l0"}},"$defs":{` + laughs.String() +
			`"l64":{"type":"string"}}}`, false},
		"a long one": {`{"type":"object","properties":{"x":{"enum":["` + strings.Repeat("x", 130<<10) + `"]}}}`,
			false},
		"many":            {`{"type":"object","properties":{` + many(9000) + `}}`, false},
		"a deep one":      {`{"type":"object","properties":{"x":` + deep + `}}`, true},
		"a long sentence": {`{"type":"object","description":"` + strings.Repeat("ä", 60<<10) + `"}`, true},
	} {
		doc := write(t, test.schema)
		got, _ := at(t, doc, "components", "schemas", "c_t").(map[string]any)
		if description, _ := got["description"].(string); strings.Contains(description,
			"too large to be shown") == test.shown || len(description) > 5<<10 {
			t.Errorf("%s: %.300v; description %+v", name, got, description)
		}
	}
	tools := make([]openapi.Tool, 60)
	for i := range tools {
		tools[i] = openapi.Tool{Name: fmt.Sprint("t", i), Schema: map[string]any{"pattern": strings.Repeat("x",
			100<<10)}}
	}
	text, err := documents(t).Write([]openapi.Capability{{ID: "c", Tools: tools}}, false)
	if err != nil || len(text) > openapi.MaxBytes || len(text) < openapi.MaxBytes/2 ||
		object(t, text)["x-capgate-left-out"] != true {
		t.Errorf("%d bytes, %v", len(text), err)
	}
}

func many(n int) string {
	names := make([]string, n)
	for i := range names {
		names[i] = fmt.Sprintf(`"n%d":{"not":{}}`, i)
	}
	return strings.Join(names, ",")
}

// TestYAMLSaysTheSame, and no reader takes a string for something else.
func TestYAMLSaysTheSame(t *testing.T) {
	t.Parallel()
	odd := []any{"yes", "NO", "off", "~", "null", "1", "1_000", "0x1f", "1e3", ".inf", "12:30:45", "2026-01-02", "",
		" a", "a ", "a: b", "a #b", "- a", "?", "&a", "*a", "!x", "|", ">", "%", "@", "`",
		"\u2028", "\x00", "é\n\tü\n", "\"'", "{}", "[", "<<", "=", "true", "y", "N", "\U0001f600"}
	names := map[string]any{}
	for _, o := range odd {
		names[o.(string)] = map[string]any{"type": "string"}
	}
	schema := map[string]any{"type": "object", "properties": names, "enum": odd}
	text, err := documents(t).Write([]openapi.Capability{{ID: "c",
		Tools: []openapi.Tool{{Name: "t", Description: "a\n\n  b: c\n", Schema: schema}}}}, false)
	check.Must(t, err)
	said, err := openapi.YAML(text)
	check.Must(t, err)
	var got map[string]any
	check.Must(t, yaml.Unmarshal(said, &got))
	back, err := json.Marshal(got)
	check.Must(t, err)
	if !reflect.DeepEqual(object(t, back), object(t, text)) {
		t.Errorf("%s", said)
	}
	for _, word := range []string{"yes", "NO", "off", "null", "12:30:45", "y", "N", "="} {
		if !strings.Contains(string(said), `- "`+word+`"`) {
			t.Errorf("%q has no quotes", word)
		}
	}
	if !strings.HasPrefix(string(said), "openapi: ") {
		t.Errorf("%.100s", said)
	}
}

// FuzzWrite: whatever a schema is, the document is JSON, and its references lead into it.
func FuzzWrite(f *testing.F) {
	f.Add(`{"properties":{"a":{"$ref":"#/$defs/x"}},"$defs":{"x":{"$ref":"#"}}}`)
	f.Add(`{"definitions":{"a":{"items":[{"$ref":"#/definitions/a/items/0"}]}}}`)
	d, err := openapi.New()
	check.Must(f, err)
	f.Fuzz(func(t *testing.T, schema string) {
		var o map[string]any
		if json.Unmarshal([]byte(schema), &o) != nil {
			return
		}
		text, err := d.Write([]openapi.Capability{{ID: "c", Tools: []openapi.Tool{{Name: "t", Schema: o}}}}, false)
		check.Must(t, err)
		for _, ref := range refs(at(t, object(t, text), "components", "schemas", "c_t")) {
			if !strings.HasPrefix(ref, "#/components/schemas/c_t") {
				t.Errorf("%s", ref)
			}
		}
		if _, err := openapi.YAML(text); err != nil {
			t.Error(err)
		}
	})
}
