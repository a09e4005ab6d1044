package toolset_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/capgate/capgate/internal/lib/strictjson"
	"github.com/capgate/capgate/internal/testkit/check"
	"github.com/capgate/capgate/internal/toolschema"
	"github.com/capgate/capgate/internal/toolset"
)

// entry returns an entry with fixed arguments.
func entry(t *testing.T, args string) *toolset.Entry {
	t.Helper()
	all, err := toolset.ParseArguments([]byte(args))
	check.Must(t, err)
	return &toolset.Entry{Capability: "c", Tool: "t", Arguments: all}
}

// fill fills arguments.
func fill(t *testing.T, e *toolset.Entry, args string) (string, error) {
	t.Helper()
	reader := strictjson.Get()
	defer reader.Release()
	check.Must(t, reader.Read([]byte(args), strictjson.Options{Keep: true}))
	full, err := e.Fill([]byte(args), reader.Root())
	return string(full), err
}

// TestFill: fixed arguments are added in the order of their names, and the text of the others is unchanged.
func TestFill(t *testing.T) {
	t.Parallel()
	e := entry(t, `{"z": [1, 2.50], "a\"b": {"x": null}, "n s": "t"}`)
	for args, want := range map[string]string{
		`{}`:                           `{"a\"b":{"x": null},"n s":"t","z":[1, 2.50]}`,
		" { } ":                        `{"a\"b":{"x": null},"n s":"t","z":[1, 2.50]}`,
		`{"n": 9007199254740993 }`:     `{"n": 9007199254740993,"a\"b":{"x": null},"n s":"t","z":[1, 2.50]}`,
		`{"s":"}","o":{"z":1}}` + "\n": `{"s":"}","o":{"z":1},"a\"b":{"x": null},"n s":"t","z":[1, 2.50]}`,
	} {
		got, err := fill(t, e, args)
		if err != nil || got != want {
			t.Errorf("%s: %s %v, want %s", args, got, err, want)
		}
		check.Must(t, strictjson.Check([]byte(got)))
	}
	for _, args := range []string{`{"z":1}`, `{"Z":1}`, `{"\u007a":1}`, `{"A\"B":1}`} {
		_, err := fill(t, e, args)
		var fixed *toolset.FixedError
		if !errors.As(err, &fixed) {
			t.Errorf("%s: %v", args, err)
		}
	}
	for _, name := range []string{"K", "S"} { // also Kelvin's sign and the long s, which readers may fold
		other := map[string]string{"K": "\u212a", "S": "\u017f"}[name]
		if _, err := fill(t, entry(t, `{"`+name+`":1}`), `{"`+other+`":2}`); err == nil {
			t.Errorf("%q passes as %q", other, name)
		}
	}
}

// TestArgumentsHaveBounds: fixed arguments are a JSON object with one reading, of a bounded size.
func TestArgumentsHaveBounds(t *testing.T) {
	t.Parallel()
	many := ""
	for i := range 33 {
		many += fmt.Sprintf(`,"a%d":1`, i)
	}
	for _, text := range []string{``, `[]`, `null`, `{}`, `{"a":1,"a":2}`, `{"a":1,"A":2}`, `{"":1}`,
		`{` + many[1:] + `}`,
		`{"a":"` + strings.Repeat("a", 17<<10) + `"}`, `{"a":1e999}`, `{"a":"\ud800"}`} {
		if _, err := toolset.ParseArguments([]byte(text)); err == nil {
			t.Errorf("%.40s is accepted", text)
		}
	}
}

// TestSchema: a fixed argument appears nowhere in the schema of a tool's arguments, and what is left still checks the
// arguments of clients.
func TestSchema(t *testing.T) {
	t.Parallel()
	e := entry(t, `{"a": 1, "b": 2}`)
	for schema, want := range map[string]string{
		`{"type":"object"}`: `{"type":"object"}`,
		`true`:              `true`,
		`not JSON`:          `not JSON`,
		`{"properties":{"a":{},"c":{"const":12345678901234567890}},"required":["a","c"]}`: `{"properties":{"c":` +
			`{"const":12345678901234567890}},"required":["c"]}`,
		`{"required":["a"],"properties":{"c":{"properties":{"a":{}},"required":["a"]}}}`: `{"properties":{"c":` +
			`{"properties":{"a":{}},"required":["a"]}}}`,
		`{"allOf":[{"required":["a"]},{"required":["b","c"]}]}`: `{"allOf":[{},{"required":["c"]}]}`,
		`{"dependentRequired":{"a":["c"]},"if":{"required":["a"]},"then":{"required":["b","c"]}}`: `{` +
			`"dependentRequired":{},"if":{"required":["a"]},"then":{"required":["c"]}}`,
		`{"allOf":{},"not":{"required":["a"]},"properties":[],"required":"a"}`: `{"allOf":{},` +
			`"not":{"required":["a"]},"properties":[],"required":"a"}`,
	} {
		if got := string(e.Schema([]byte(schema))); got != want {
			t.Errorf("%s: %s, want %s", schema, got, want)
		}
	}
	schema := []byte(`{"type":"object","properties":{"a":{"type":"integer"},"c":{"type":"integer"}},` +
		`"required":["a"],"additionalProperties":false}`)
	for args, valid := range map[string]bool{`{}`: true, `{"c":1}`: true, `{"c":"1"}`: false, `{"d":1}`: false} {
		s, err := toolschema.Compile(e.Schema(schema))
		check.Must(t, err)
		if err := s.Check(context.Background(), []byte(args)); (err == nil) != valid {
			t.Errorf("%s: %v", args, err)
		}
	}
	deep := strings.Repeat(`{"allOf":[`, 10_000) + strings.Repeat(`]}`, 10_000)
	e.Schema([]byte(deep)) // ends
}

// TestFind: a caller gets the first toolset of a name that is for its tenant and one of its groups.
func TestFind(t *testing.T) {
	t.Parallel()
	of := func(capability string) []toolset.Entry { return []toolset.Entry{{Capability: capability, Tool: "*"}} }
	sets := toolset.New([]toolset.Toolset{
		{Name: "b", Tenants: []string{"acme"}, Groups: []string{"g", "h"}, Tools: of("one")},
		{Name: "b", Tenants: []string{"acme", "globex"}, Tools: of("two")},
		{Name: "a", Groups: []string{"h"}, Tools: of("three")},
	})
	for _, c := range []struct{ name, tenant, group, want string }{
		{"b", "acme", "h", "one"}, {"b", "acme", "x", "two"}, {"b", "globex", "h", "two"}, {"b", "other", "h", ""},
		{"a", "other", "h", "three"}, {"a", "acme", "g", ""}, {"c", "acme", "g", ""},
	} {
		set := sets.Find(c.name, toolset.Caller{Tenant: c.tenant, Groups: []string{"z", c.group}})
		if (set != nil) != (c.want != "") || set != nil && !set.Has(c.want) {
			t.Errorf("%+v: %+v", c, set)
		}
	}
	var names []string
	for _, set := range sets.Of(toolset.Caller{Tenant: "acme", Groups: []string{"h"}}) {
		names = append(names, set.Name())
	}
	if fmt.Sprint(names) != "[a b]" {
		t.Errorf("acme has %v", names)
	}
	if none := (*toolset.Sets)(nil); none.Find("a", toolset.Caller{}) != nil || none.Of(toolset.Caller{}) != nil ||
		none.All() != nil || none.Changed("c", "t", toolschema.Hash{}) != nil {
		t.Error("no toolsets")
	}
}

// TestEntry: exact names count before patterns, and otherwise the first entry that matches.
func TestEntry(t *testing.T) {
	t.Parallel()
	hash := toolschema.Hash{1}
	sets := toolset.New([]toolset.Toolset{{Name: "s", Tools: []toolset.Entry{
		{Capability: "c*", Tool: "get_*"}, {Capability: "cat", Tool: "*"},
		{Capability: "cat", Tool: "get_all", Name: "all", Hash: hash}, {Capability: "dog", Tool: "[ab]?c"},
	}}})
	set := sets.Find("s", toolset.Caller{Tenant: "any"})
	for _, c := range []struct{ capability, tool, want string }{
		{"cat", "get_all", "get_all"}, {"cat", "get_one", "get_*"}, {"cow", "get_one", "get_*"}, {"cat", "set", "*"},
		{"cow", "set", ""}, {"cat", "prompts/x", "*"}, {"cow", "prompts/get_x", ""}, {"dog", "axc", "[ab]?c"},
		{"dog", "cxc", ""},
	} {
		got := ""
		if e := set.Entry(c.capability, c.tool); e != nil {
			got = e.Tool
		}
		if got != c.want {
			t.Errorf("%+v: %q", c, got)
		}
	}
	if e := set.Entry("cat", "get_all"); e.Changed(hash, true) || !e.Changed(toolschema.Hash{}, true) ||
		!e.Changed(hash, false) || set.Entry("cat", "set").Changed(hash, false) {
		t.Error("changed tools")
	}
	if set.Named("all") == nil || set.Named("get_all") != nil {
		t.Error("names of clients")
	}
}
