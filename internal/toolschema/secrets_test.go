package toolschema_test

import (
	"testing"

	"github.com/capgate/capgate/internal/testkit/check"
	"github.com/capgate/capgate/internal/toolschema"
)

// TestSecrets: writeOnly and the format password say what is a secret, wherever the schema has them.
func TestSecrets(t *testing.T) {
	t.Parallel()
	const password = `{"type":"string","format":"password"}`
	for name, text := range map[string]string{
		"a property":   `{"properties":{"x":` + password + `}}`,
		"writeOnly":    `{"properties":{"x":{"writeOnly":true}}}`,
		"a reference":  `{"properties":{"x":{"$ref":"#/$defs/a~1b"}},"$defs":{"a/b":` + password + `}}`,
		"a loop":       `{"properties":{"x":{"$ref":"#/properties/x/anyOf/0","anyOf":[` + password + `]}}}`,
		"combinations": `{"allOf":[{"properties":{"x":{"oneOf":[{"type":"null"},` + password + `]}}}]}`,
		"a condition":  `{"if":{"required":["y"]},"then":{"properties":{"x":` + password + `}}}`,
		"otherwise":    `{"if":{"required":["y"]},"else":{"properties":{"x":` + password + `}}}`,
		"a pattern":    `{"patternProperties":{"^x$":` + password + `}}`,
		"the rest":     `{"additionalProperties":` + password + `,"properties":{"y":{}}}`,
	} {
		s, err := toolschema.Compile([]byte(text))
		check.Must(t, err)
		if top := s.Secrets(); top.Secret() || !top.Member("x").Secret() || top.Member("y").Secret() {
			t.Errorf("%s: %v %v %v", name, top.Secret(), top.Member("x").Secret(), top.Member("y").Secret())
		}
	}
	s, err := toolschema.Compile([]byte(`{"properties":{"a":{"prefixItems":[{}],"items":` + password + `}}}`))
	check.Must(t, err)
	if of := s.Secrets().Member("a"); of.Item(0).Secret() || !of.Item(1).Secret() || of.Member("x").Secret() {
		t.Error("items")
	}
	var none *toolschema.Schema
	if of := none.Secrets(); of != nil || of.Secret() || of.Member("x").Item(0).Secret() {
		t.Error("no schema")
	}
}
