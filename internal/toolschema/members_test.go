package toolschema_test

import (
	"testing"

	"github.com/capgate/capgate/internal/testkit/check"
	"github.com/capgate/capgate/internal/toolschema"
)

// TestCheckMembers: a part of the arguments is checked without the others, and its names are declared ones.
func TestCheckMembers(t *testing.T) {
	t.Parallel()
	const of = `"properties":{"a":{"type":"integer"},"b":{"enum":["x"]}},"required":["b","c"]`
	for _, c := range []struct{ schema, part, want string }{
		{of, `{"a":1}`, ""},
		{of, `{"a":1,"b":"x"}`, ""},
		{of, `{"a":"1"}`, `at "/a": got string, want integer`},
		{of, `{"b":"y"}`, `at "/b": value must be 'x'`},
		{of, `{"d":1}`, `at "/d": is not a property that is allowed; did you mean "a"?`},
		{of, `{"A":1}`, `have a name that differs only in case from "a" in the schema`},
		{of + `,"additionalProperties":true`, `{"d":1}`, ""},
		{of + `,"additionalProperties":false`, `{"d":1}`,
			`at "/d": is not a property that is allowed; did you mean "a"?`},
		{of + `,"additionalProperties":{"type":"string"}`, `{"d":1}`, `at "/d": got number, want string`},
		{of + `,"patternProperties":{"^x":{"type":"string"}}`, `{"x1":"s"}`, ""},
		{of + `,"patternProperties":{"^x":{"type":"string"}}`, `{"x1":1}`, `at "/x1": got number, want string`},
		{of + `,"anyOf":[{"properties":{"d":{}},"required":["e"]}]`, `{"d":1}`, ""},
		{`"type":"object"`, `{"d":1}`, ""},
	} {
		s, err := toolschema.Compile([]byte(`{` + c.schema + `}`))
		check.Must(t, err)
		got := ""
		if err := s.CheckMembers(t.Context(), []byte(c.part)); err != nil {
			got = err.Error()
		}
		if got != c.want {
			t.Errorf("%s of %s: %s, want %s", c.part, c.schema, got, c.want)
		}
	}
}
