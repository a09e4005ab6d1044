package toolschema_test

import (
	"bytes"
	"encoding/json"
	"math/rand/v2"
	"testing"

	"github.com/santhosh-tekuri/jsonschema/v6"

	"github.com/capgate/capgate/internal/testkit/check"
	"github.com/capgate/capgate/internal/toolschema"
)

// maker makes random schemas and values.
type maker struct{ *rand.Rand }

func (m maker) pick(of ...any) any { return of[m.IntN(len(of))] }

func (m maker) value(depth int) any {
	switch n := m.IntN(9); {
	case n < 2 && depth > 0:
		o := map[string]any{}
		for range m.IntN(4) {
			o[m.name()] = m.value(depth - 1)
		}
		return o
	case n < 4 && depth > 0:
		a := []any{}
		for range m.IntN(4) {
			a = append(a, m.value(depth-1))
		}
		return a
	}
	return m.pick(nil, true, false, 0, 1, json.Number("1.0"), 2, 2.5, -1, json.Number("1e2"), json.Number("100"), "",
		"a", "ab", "é", "2020-01-01",
		json.Number("123456789012345678901234567890"))
}

func (m maker) name() string { return m.pick("a", "b", "c", "ab").(string) }

func (m maker) schemas(depth int) []any {
	var all []any
	for range 1 + m.IntN(3) {
		all = append(all, m.schema(depth-1))
	}
	return all
}

func (m maker) named(depth int) map[string]any {
	all := map[string]any{}
	for range 1 + m.IntN(3) {
		all[m.name()] = m.schema(depth - 1)
	}
	return all
}

// schema returns a schema of up to four keywords. References go to definitions without references.
func (m maker) schema(depth int) any {
	if n := m.IntN(12); n == 0 || depth <= 0 && n < 3 {
		return m.IntN(3) > 0
	}
	s := map[string]any{}
	for range 1 + m.IntN(4) {
		if depth <= 0 || m.IntN(2) == 0 {
			m.assertion(s)
		} else {
			m.applicator(s, depth)
		}
	}
	return s
}

func (m maker) assertion(s map[string]any) {
	switch m.IntN(14) {
	case 0, 1:
		s["type"] = m.pick("object", "array", "string", "number", "integer", "null", "boolean",
			[]any{"integer", "string"}, []any{"object", "array"})
	case 2:
		s["enum"] = []any{m.value(1), m.value(1), m.value(2)}
	case 3:
		s["const"] = m.value(2)
	case 4:
		s[m.pick("minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum").(string)] = m.pick(0, 1, 2.5, 100)
	case 5:
		s["multipleOf"] = m.pick(1, 2, 0.5)
	case 6:
		s[m.pick("minLength", "maxLength", "minItems", "maxItems", "minProperties", "maxProperties").(string)] = m.IntN(
			3)
	case 7:
		s["pattern"] = m.pick("^a", "b$", "^.$")
	case 8:
		s["uniqueItems"] = true
	case 9:
		s["required"] = []any{m.name()}
	case 10:
		s["dependentRequired"] = map[string]any{m.name(): []any{m.name()}}
	case 11:
		s["format"] = m.pick("date", "email", "regex")
	case 12:
		s["$ref"] = m.pick("#/$defs/x", "#/$defs/y", "#/definitions/z")
	case 13:
		s["$dynamicRef"] = "#w"
	}
}

func (m maker) applicator(s map[string]any, depth int) {
	switch m.IntN(18) {
	case 0, 1, 2:
		s["properties"] = m.named(depth)
	case 3:
		s["patternProperties"] = map[string]any{m.pick("^a", "b", "c$").(string): m.schema(depth - 1)}
	case 4:
		s["additionalProperties"] = m.schema(depth - 1)
	case 5:
		s["items"] = m.schema(depth - 1)
	case 6:
		s["prefixItems"] = m.schemas(depth)
	case 7:
		s["contains"] = m.schema(depth - 1)
		s[m.pick("minContains", "maxContains").(string)] = m.IntN(3)
	case 8:
		s["allOf"] = m.schemas(depth)
	case 9:
		s["anyOf"] = m.schemas(depth)
	case 10:
		s["oneOf"] = m.schemas(depth)
	case 11:
		s["not"] = m.schema(depth - 1)
	case 12:
		s["if"], s["then"], s["else"] = m.schema(depth-1), m.schema(depth-1), m.schema(depth-1)
	case 13:
		s["propertyNames"] = m.schema(depth - 1)
	case 14:
		s["dependentSchemas"] = m.named(depth)
	case 15:
		s["unevaluatedProperties"] = m.schema(depth - 1)
	case 16:
		s["unevaluatedItems"] = m.schema(depth - 1)
	case 17:
		s["dependencies"] = map[string]any{m.name(): m.schema(depth - 1), "zz": []any{m.name()}}
	}
}

func (m maker) document() map[string]any {
	s, is := m.schema(3).(map[string]any)
	for !is {
		s, is = m.schema(3).(map[string]any)
	}
	if draft := m.pick("", "", "https://json-schema.org/draft/2020-12/schema",
		"https://json-schema.org/draft/2019-09/schema",
		"http://json-schema.org/draft-07/schema#"); draft != "" {
		s["$schema"] = draft
	}
	plain := func() map[string]any {
		p := map[string]any{}
		for range 2 {
			m.assertion(p)
		}
		delete(p, "$ref")
		delete(p, "$dynamicRef")
		p["properties"] = map[string]any{m.name(): map[string]any{"$ref": "#/$defs/x"}} // which continues below
		return p
	}
	anchored := plain()
	anchored["$dynamicAnchor"] = "w"
	s["$defs"] = map[string]any{"x": plain(), "y": plain(), "w": anchored}
	s["definitions"] = map[string]any{"z": plain()}
	return s
}

// TestAsTheLibrary: the results equal those of the library, which passes the suite of the specification.
func TestAsTheLibrary(t *testing.T) {
	t.Parallel()
	m := maker{rand.New(rand.NewPCG(rand.Uint64(), 1))} //nolint:gosec // nothing to guess
	compared, valid := 0, 0
	for range 400 {
		text, _ := json.Marshal(m.document())
		s, err := toolschema.Compile(text)
		doc, decodeErr := toolschema.Decode(text)
		check.Must(t, decodeErr)
		c := jsonschema.NewCompiler()
		check.Must(t, c.AddResource("tool:///s", doc))
		library, libraryErr := c.Compile("tool:///s")
		if (err == nil) != (libraryErr == nil) {
			t.Fatalf("%s: %v, but the library says %v", text, err, libraryErr)
		}
		if err != nil {
			continue
		}
		for range 5 {
			args, _ := json.Marshal(m.value(3))
			value, err := jsonschema.UnmarshalJSON(bytes.NewReader(args))
			check.Must(t, err)
			got, want := s.Check(t.Context(), args), library.Validate(value)
			if (got == nil) != (want == nil) {
				t.Fatalf("%s of %s: %v, but the library says %v", args, text, got, want)
			}
			if compared++; got == nil {
				valid++
			}
		}
	}
	if valid < compared/20 || valid > compared*19/20 {
		t.Errorf("%d of %d are valid, which says little", valid, compared)
	}
}
