package toolschema_test

import (
	"strings"
	"testing"
	"time"

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

// TestSecretsOfServers: what is a secret stays one where the schema is of an older draft, or has a pattern that the
// gateway cannot read or that is too costly. A name costs little, whatever the pattern.
func TestSecretsOfServers(t *testing.T) {
	t.Parallel()
	costly := strings.Repeat("(a{1000})", 3000)
	for name, test := range map[string]struct{ text, secret, other string }{
		"a pattern": {`{"patternProperties":{"^(?!y)":{"writeOnly":true}},"properties":{"y":{}}}`, "x", ""},
		"the rest": {`{"patternProperties":{"^(?!x)":{}},"additionalProperties":{"writeOnly":true},` +
			`"properties":{"y":{}}}`, "x", "y"},
		"an escape":        {`{"patternProperties":{"^\\u0078$":{"writeOnly":true}}}`, "x", "y"},
		"a costly pattern": {`{"patternProperties":{"` + costly + `":{"writeOnly":true}}}`, "x", ""},
	} {
		s, err := toolschema.CompileLenient([]byte(test.text))
		check.Must(t, err)
		begin := time.Now()
		if top := s.Secrets(); !top.Member(test.secret).Secret() ||
			test.other != "" && top.Member(test.other).Secret() {
			t.Errorf("%s: %s is shown, or %s is not", name, test.secret, test.other)
		}
		if took := time.Since(begin); took > check.Patience {
			t.Errorf("%s: took %v", name, took)
		}
	}
	s, err := toolschema.CompileLenient(
		[]byte(`{"items":[{},{"writeOnly":true}],"additionalItems":{"format":"password"}}`))
	check.Must(t, err)
	if of := s.Secrets(); of.Item(0).Secret() || !of.Item(1).Secret() || !of.Item(2).Secret() {
		t.Errorf("a tuple: %v %v %v", of.Item(0).Secret(), of.Item(1).Secret(), of.Item(2).Secret())
	}
}
