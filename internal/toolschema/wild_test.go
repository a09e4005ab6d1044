package toolschema_test

import (
	"strings"
	"testing"

	"github.com/capgate/capgate/internal/testkit/check"
	"github.com/capgate/capgate/internal/toolschema"
)

// TestSchemasInTheWild: schemas that servers publish, which are of an older draft, or have patterns of ECMA-262. What
// can be checked is checked; what cannot is named, and rejects nothing.
func TestSchemasInTheWild(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		schema    string
		unchecked string // part of the note; "": checked as a whole
		good, bad string // arguments, separated by spaces
	}{
		"a tuple": {`{"properties":{"p":{"type":"array","items":[{"type":"number"},{"type":"string"}],"additionalItems":false}}}`,
			"", `{"p":[1,"a"]}`, `{"p":["a"]} {"p":[1,"a",2]}`},
		"a bound of draft 4": {`{"properties":{"n":{"minimum":1,"exclusiveMinimum":true}}}`, "", `{"n":2}`, `{"n":1}`},
		"definitions": {`{"definitions":{"a":{"type":"string"}},"properties":{"s":{"$ref":"#/definitions/a"}}}`, "",
			`{"s":"x"}`, `{"s":1}`},
		"a draft without #": {`{"$schema":"https://json-schema.org/draft-07/schema","properties":{"n":{"type":"integer"}}}`, "",
			`{"n":1}`, `{"n":"a"}`},
		"a draft of nobody": {`{"$schema":"https://example.com/tools#","properties":{"n":{"type":"integer"}}}`, "",
			`{"n":1}`, `{"n":"a"}`},
		"a code unit":  {`{"properties":{"s":{"pattern":"^[\\u0041-\\u005A]+$"}}}`, "", `{"s":"AZ"}`, `{"s":"a"}`},
		"a pair":       {`{"properties":{"s":{"pattern":"^\\ud83d\\ude00$"}}}`, "", `{"s":"😀"}`, `{"s":"a"}`},
		"a code point": {`{"properties":{"s":{"pattern":"^\\u{1F600}$"}}}`, "", `{"s":"😀"}`, `{"s":"a"}`},
		"no escape":    {`{"properties":{"s":{"pattern":"^\\\\u0041$"}}}`, "", `{"s":"\\u0041"}`, `{"s":"A"}`},
		"lookahead": {`{"properties":{"s":{"pattern":"^(?!x).*$","maxLength":3}}}`,
			`the pattern "^(?!x).*$" is not checked`, `{"s":"x"}`, `{"s":"abcd"}`},
		"lookbehind": {`{"properties":{"s":{"pattern":"(?<!a)b","type":"string"}}}`, "is not checked",
			`{"s":"ab"}`, `{"s":1}`},
		"a reference": {`{"properties":{"s":{"pattern":"^(a)\\1$","type":"string"}}}`, "is not checked",
			`{"s":"ab"}`, `{"s":1}`},
		"many repeats": {`{"properties":{"s":{"pattern":"^.{1,4096}$","type":"string"}}}`, "is not checked",
			`{"s":"ab"}`, `{"s":1}`},
		"half a pair": {`{"properties":{"s":{"pattern":"^[\\ud800-\\udfff]$","type":"string"}}}`,
			"is not checked", `{"s":"x"}`, `{"s":1}`},
		"a class of all": {`{"properties":{"s":{"pattern":"^[^]*$","type":"string"}}}`, "is not checked",
			`{"s":"ab"}`, `{"s":1}`},
		"a loose range": {`{"properties":{"s":{"pattern":"^[\\w-.]+$","type":"string"}}}`, "", `{"s":"a-"}`,
			`{"s":"!"}`},
		"a pattern below not": {`{"properties":{"s":{"not":{"pattern":"^(?!x)"}}}}`, "is not checked",
			`{"s":"a"} {"s":"x"}`, ``},
		"one of two": {`{"properties":{"s":{"oneOf":[{"pattern":"^(?!x)"},{"pattern":"^(?=x)"}]}}}`, "is not checked",
			`{"s":"a"} {"s":"x"}`, ``},
		"a condition": {`{"properties":{"s":{"if":{"pattern":"^(?!x)"},"then":{"minLength":3},"else":{"maxLength":1}}}}`,
			"is not checked", `{"s":"a"} {"s":"xyz"}`, ``},
		"names": {`{"patternProperties":{"^(?!x)":{"type":"number"}},"additionalProperties":false}`, "is not checked",
			`{"a":"b"}`, ``},
		"what must not be there": {`{"patternProperties":{"^(?!x)":{}},"properties":{"x":{"type":"number"}},"unevaluatedProperties":false}`,
			"is not checked", `{"a":1,"x":2}`, `{"x":"a"}`},
		"at most one": {`{"properties":{"l":{"contains":{"pattern":"^(?!x)"},"maxContains":1}}}`, "is not checked",
			`{"l":["a","xb"]}`, `{"l":[]}`},
		"names below not": {`{"not":{"patternProperties":{"^(?!x)":{"type":"string"}},"minProperties":1}}`,
			"is not checked", `{"x":1} {}`, ``},
		"names of one of two": {`{"oneOf":[{"patternProperties":{"^(?!x)":{}},"additionalProperties":false},{"required":["x"]}]}`,
			"is not checked", `{"x":1} {"a":1}`, ``},
		"a tuple and a later rule": {`{"properties":{"p":{"items":[{}]}},"dependentRequired":{"a":["b"]}}`,
			"is not a JSON Schema", `{"a":1}`, ``},
		"another document": {`{"properties":{"a":{"$ref":"https://example.com/a.json"}}}`, "refers to another document",
			`{"a":1}`, ``},
		"no schema":      {`{"type":"objekt"}`, "is not a JSON Schema", `{"a":1}`, ``},
		"without an end": {`{"$ref":"#"}`, "too costly to check", `{"a":1}`, ``},
		"too costly": {`{"pattern":"` + strings.Repeat("(a{1000})", 6) + `"}`, "too costly to check", `{"a":1}`,
			``},
	} {
		s, err := toolschema.CompileLenient([]byte(test.schema))
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		if notes := strings.Join(s.Unchecked(), "; "); (notes == "") != (test.unchecked == "") ||
			!strings.Contains(notes, test.unchecked) {
			t.Errorf("%s: unchecked: %q, want %q", name, notes, test.unchecked)
		}
		for args := range strings.FieldsSeq(test.good) {
			if err := s.Check(t.Context(), []byte(args)); err != nil {
				t.Errorf("%s: %s: %v", name, args, err)
			}
		}
		for args := range strings.FieldsSeq(test.bad) {
			if err := s.Check(t.Context(), []byte(args)); err == nil {
				t.Errorf("%s: %s is accepted", name, args)
			}
		}
	}
}

// TestSchemasThatAreNotAccepted: a tool without arguments that anybody can read is no tool.
func TestSchemasThatAreNotAccepted(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{
		`{`: "is not JSON", `[]`: "must be an object", `{"a":1,"a":2}`: "a name twice",
		`{"description":"` + strings.Repeat("a", toolschema.MaxBytes) + `"}`: "are allowed",
	} {
		_, err := toolschema.CompileLenient([]byte(text))
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%.40s: %v, want %q", text, err, want)
		}
	}
}

// TestUncheckedSchemas: a schema that is not checked still has its text, its hash and its secrets.
func TestUncheckedSchemas(t *testing.T) {
	t.Parallel()
	s, err := toolschema.CompileLenient([]byte(`{"type":"objekt","properties":{"key":{"writeOnly":true}}}`))
	check.Must(t, err)
	if !s.Secrets().Member("key").Secret() || s.IsOfObject() || s.CheckResult(t.Context(), []byte(`{}`)) != nil ||
		!strings.Contains(string(s.JSON()), "objekt") {
		t.Errorf("%+v", s)
	}
	if err := s.Check(t.Context(), []byte(`{"a":1,"a":2}`)); err == nil {
		t.Error("arguments with two readings are accepted")
	}
}

// TestRulesThatOlderDraftsIgnore: a schema with a mistake is not taken for one of a draft that ignores the mistake, or
// another rule. Names of properties, and values, are no rules.
func TestRulesThatOlderDraftsIgnore(t *testing.T) {
	t.Parallel()
	const tuple = `"p":{"items":[{}]}`
	for name, text := range map[string]string{
		"a required name":  `{"dependentRequired":{"a":"b"}}`,
		"what is left":     `{"unevaluatedProperties":"false"}`,
		"a name's pattern": `{"propertyNames":"^a"}`,
		"a constant":       `{"properties":{"mode":{"const":"read"},"x":{"examples":"abc"}}}`,
		"a condition":      `{"if":{"required":["a"]},"then":{"required":["b"]},"properties":{"n":{"minimum":1,"exclusiveMinimum":true}}}`,
		"below a list":     `{"anyOf":[{"properties":{"x":{"contains":{}}}}],"properties":{"n":{"minimum":1,"exclusiveMinimum":true}}}`,
		"below a name":     `{"definitions":{"a":{"minContains":1}},"properties":{` + tuple + `}}`,
		"below contains":   `{"properties":{"a":{"contains":{"prefixItems":[]}},` + tuple + `}}`,
	} {
		if _, err := toolschema.Compile([]byte(text)); err == nil ||
			!strings.Contains(err.Error(), "is not a JSON Schema") {
			t.Errorf("%s: %v", name, err)
		}
	}
	for name, text := range map[string]string{
		"properties": `{"properties":{"const":{},"prefixItems":{"type":"string"},"n":{"minimum":1,"exclusiveMinimum":true}}}`,
		"values":     `{"default":{"const":1},"enum":[{"if":1}],"properties":{"n":{"minimum":1,"exclusiveMinimum":true}}}`,
		"draft 7": `{"properties":{"a":{"const":{"prefixItems":1}},` + tuple +
			`},"if":{},"propertyNames":{"maxLength":3}}`,
	} {
		if s, err := toolschema.Compile([]byte(text)); err != nil || len(s.Unchecked()) > 0 {
			t.Errorf("%s: %v %v", name, err, s.Unchecked())
		}
	}
}

// TestMistakesInPatterns: what is a mistake in every language of patterns is the author's, and no pattern that is not
// checked.
func TestMistakesInPatterns(t *testing.T) {
	t.Parallel()
	for _, pattern := range []string{"[9-0]", `[\\u005a-\\u0041]`, "a{3,1}", "a{1001,2}?", "(", "[a", "a++"} {
		if _, err := toolschema.Compile([]byte(`{"pattern":"` + pattern + `"}`)); err == nil {
			t.Errorf("%s is accepted", pattern)
		}
	}
	for _, pattern := range []string{`\\p{Foo}`, "[[:foo:]]", "a{2,2000}", "a{2000}", "a{2000,}"} {
		if s, err := toolschema.Compile([]byte(`{"pattern":"` + pattern + `"}`)); err != nil ||
			len(s.Unchecked()) != 1 {
			t.Errorf("%s: %v %v", pattern, err, s.Unchecked())
		}
	}
}
