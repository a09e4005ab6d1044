package toolschema_test

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"strings"
	"testing"

	"github.com/capgate/capgate/internal/lib/strictjson"
	"github.com/capgate/capgate/internal/testkit/check"
	"github.com/capgate/capgate/internal/toolschema"
)

func compile(t testing.TB, text string) *toolschema.Schema {
	t.Helper()
	s, err := toolschema.Compile([]byte(text))
	check.Must(t, err)
	return s
}

// twofold returns a schema in which each definition applies the previous one twice, in the given form.
func twofold(n int, format string) string {
	var b strings.Builder
	b.WriteString(`{"$ref":"#/$defs/d` + fmt.Sprint(n) + `","$defs":{"d0":{"type":"object"}`)
	for i := range n {
		fmt.Fprintf(&b, `,"d%d":`, i+1)
		b.WriteString(strings.ReplaceAll(format, "REF", fmt.Sprintf(`{"$ref":"#/$defs/d%d"}`, i)))
	}
	return b.String() + `}}`
}

// A schema that costs too much is rejected when it is compiled.
func TestCostlySchemas(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct{ text, want string }{
		"allOf":     {twofold(40, `{"allOf":[REF,REF]}`), "more than 5000 subschemas"},
		"anyOf":     {twofold(40, `{"anyOf":[REF,REF]}`), "more than 5000 subschemas"},
		"not":       {twofold(40, `{"not":REF,"allOf":[REF]}`), "more than 5000 subschemas"},
		"if":        {twofold(40, `{"if":REF,"then":REF,"else":REF}`), "more than 5000 subschemas"},
		"dependent": {twofold(40, `{"dependentSchemas":{"a":REF,"b":REF}}`), "more than 5000 subschemas"},
		"chain":     {twofold(400, `REF`), "more than 200 subschemas"},
		"cycle":     {`{"$ref":"#"}`, "without end"},
		"cycle of 2": {`{"anyOf":[{"type":"string"},{"$ref":"#/$defs/a"}],"$defs":{"a":{"not":{"$ref":"#"}}}}`,
			"without end"},
		"pattern": {`{"pattern":"` + strings.Repeat("(a{1000})", 6) + `"}`, "a pattern repeats too much"},
		"at most": {`{"pattern":"` + strings.Repeat("(a{0,1000})", 6) + `"}`, "a pattern repeats too much"},
		"classes": {`{"pattern":"(\\pL{500}){1}"}`, "a pattern repeats too much"},
		"long":    {`{"pattern":"` + strings.Repeat("a", 5000) + `"}`, "a pattern has 5000 bytes"},
		"names": {`{"patternProperties":{"` + strings.Repeat("(a{1000})", 6) + `":true}}`,
			"a pattern repeats too much"},
		"many patterns": {`{"anyOf":[` + list(100, `{"pattern":"(a{1000})(b{1000})%d"}`) + `]}`,
			"its patterns together repeat too much"},
		"number": {`{"minimum":1e999999}`, "out of the range of a double"},
		"digits": {`{"maximum":` + strings.Repeat("9", 10_000) + `}`, "512 digits"},
		"values": {`{"enum":[` + strings.Repeat("0,", 125_000) + `0]}`, ""},
		"dynamic": {`{"$dynamicRef":"#a","items":{"$ref":"b"},
			"$defs":{"a":{"$dynamicAnchor":"a"},"b":{"$id":"b","$dynamicAnchor":"a"}}}`,
			"$dynamicRef or $recursiveRef and more than one $id"},
		"the language itself": {`{"properties":{"s":{"$ref":"http://json-schema.org/draft-07/schema#"}}}`, ""},
		"a tree":              {`{"type":"object","properties":{"left":{"$ref":"#"},"right":{"$ref":"#"}}}`, ""},
		"many kinds":          {`{"oneOf":[` + strings.Repeat(`{"required":["a"]},`, 1000) + `true]}`, ""},
	} {
		_, err := toolschema.Compile([]byte(test.text))
		if test.want == "" && err != nil || test.want != "" && (err == nil || !strings.Contains(err.Error(),
			test.want)) {
			t.Errorf("%s: %v, want %q", name, err, test.want)
		}
	}
}

// Arguments that cost too much end a check, whatever the schema.
func TestCostlyArguments(t *testing.T) {
	t.Parallel()
	numbers := compile(t, `{"type":"object","properties":{"n":{"type":"integer","minimum":1,"multipleOf":3}}}`)
	recursive := compile(t, `{"$ref":"#/$defs/a","$defs":{"a":{"allOf":[
			{"properties":{"x":{"$ref":"#/$defs/a"}}},{"properties":{"x":{"$ref":"#/$defs/a"}}}]}}}`)
	kinds := compile(t, `{"items":{"oneOf":[`+strings.Repeat(`{"required":["a"]},`, 1000)+`true]}}`)
	unique := compile(t, `{"uniqueItems":true}`)
	pattern := compile(t, `{"items":{"pattern":"(x+x+)+y{50}"}}`)
	var bits strings.Builder // numbers with the same float64
	for i := range 20_000 {
		fmt.Fprintf(&bits, "1%020d,", i)
	}
	deep := strings.Repeat(`{"x":`, 90) + "0" + strings.Repeat("}", 90)
	for name, test := range map[string]struct {
		schema *toolschema.Schema
		args   string
		want   string
	}{
		"exponent":       {numbers, `{"n":1e999999}`, "out of the range of a double"},
		"small":          {numbers, `{"n":1e-999999}`, "out of the range of a double"},
		"digits":         {numbers, `{"n":` + strings.Repeat("9", 1_000_000) + `}`, "512 digits"},
		"fraction":       {numbers, `{"n":1.` + strings.Repeat("0", 400) + `}`, "must be a multiple of 3"},
		"recursion":      {recursive, deep, toolschema.ErrCostly.Error()},
		"many of kinds":  {kinds, `[` + strings.Repeat("{},", 5000) + `{}]`, toolschema.ErrCostly.Error()},
		"nearly unique":  {unique, `[` + bits.String() + `0]`, toolschema.ErrCostly.Error()},
		"pattern":        {pattern, `["` + strings.Repeat("x", 4<<20) + `"]`, toolschema.ErrCostly.Error()},
		"values":         {unique, `[` + strings.Repeat("0,", 1<<20) + `0]`, "more than 131072 values"},
		"deep":           {unique, strings.Repeat("[", 1<<20), "levels deep"},
		"long but cheap": {unique, `["` + strings.Repeat("x", 8<<20) + `"]`, ""},
	} {
		err := test.schema.Check(t.Context(), []byte(test.args))
		if test.want == "" && err != nil || test.want != "" && (err == nil || !strings.Contains(err.Error(),
			test.want)) {
			t.Errorf("%s: %v, want %q", name, err, test.want)
		}
	}
}

// Results that cost too much match every schema.
func TestCostlyResults(t *testing.T) {
	t.Parallel()
	s := compile(t, `{"items":{"type":"string"},"required":["y"],"allOf":[{"$ref":"#/$defs/a"}],"$defs":{"a":{"allOf":[
			{"properties":{"x":{"$ref":"#/$defs/a"}}},{"properties":{"x":{"$ref":"#/$defs/a"}}}]}}}`)
	nest := func(depth int) string {
		return strings.Repeat(`{"x":`, depth) + `0` + strings.Repeat("}", depth)
	}
	for name, test := range map[string]struct {
		result string
		wrong  bool
	}{
		"some values":  {`[0,0]`, true},
		"many values":  {`[0` + strings.Repeat(",0", toolschema.MaxValues) + `]`, false},
		"not deep":     {nest(3), true},
		"another case": {`{"X":0}`, true},
		"deep":         {nest(60), false},
	} {
		if v := s.CheckResult(t.Context(), []byte(test.result)); (v != nil) != test.wrong {
			t.Errorf("%s: %+v", name, v)
		}
	}
}

// Of many violations ten are reported, and they take little memory.
func TestManyViolations(t *testing.T) {
	s := compile(t, `{"items":{"type":"object","properties":{"a":{"type":"string"}}}}`)
	args := []byte("[" + strings.Repeat("7,", 1<<16-2) + "7]")
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	err := s.Check(t.Context(), args)
	runtime.ReadMemStats(&after)
	var v *toolschema.Violation
	if !errors.As(err, &v) || len(v.More) != toolschema.MaxViolations-1 || v.Pointer != "/0" ||
		v.More[8].Pointer != "/9" {
		t.Errorf("%v; v %+v", err, v)
	}
	if took := after.TotalAlloc - before.TotalAlloc; took > 8<<20 {
		t.Errorf("%d KiB for %d KiB of arguments", took>>10, len(args)>>10)
	}
}

// A check ends with its context.
func TestACheckEndsWithItsCall(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	s := compile(t, `{"items":{"type":"object"}}`)
	if err := s.Check(ctx, []byte(`[{}]`)); !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
}

// A name in another case is another name to the schema, but not to every tool.
func TestNamesInAnotherCase(t *testing.T) {
	t.Parallel()
	s := compile(t, `{"properties":{"command":{"enum":["ls"]},
		"in":{"properties":{"path":{"maxLength":1}},"additionalProperties":false},
		"id":true,"ID":true,"kind":{"not":{"properties":{"Mode":{"const":1}}}}}}`)
	for args, want := range map[string]string{
		`{"command":"ls"}`:                "",
		`{"Command":"rm"}`:                "odd",
		`{"comm\u0061nD":"rm"}`:           "odd",
		`{"command":"ls","COMMAND":"rm"}`: "twice",
		`{"x":1,"X":2}`:                   "twice",
		`{"in":{"PATH":"long"}}`:          "odd",
		`{"in":{"path":"long"}}`:          "/in/path",
		`{"path":"long"}`:                 "",
		`{"\u212aind":1}`:                 "odd", // the Kelvin sign
		`{"kind":{"mode":1}}`:             "odd",
		`{"id":1}`:                        "",
		`{"ID":1}`:                        "",
		`{"iD":1}`:                        "odd",
		`{"id":1,"ID":2}`:                 "twice",
	} {
		err := s.Check(t.Context(), []byte(args))
		var odd *toolschema.AmbiguousNameError
		var text *strictjson.Error
		var v *toolschema.Violation
		got := ""
		switch {
		case errors.As(err, &odd):
			got = "odd"
		case errors.As(err, &text) && text.Ambiguous:
			got = "twice"
		case errors.As(err, &v):
			got = v.Pointer
		case err != nil:
			got = err.Error()
		}
		if got != want {
			t.Errorf("%s: %v, want %q", args, err, want)
		}
	}
}

// BenchmarkCostliest measures checks that take all their steps.
func BenchmarkCostliest(b *testing.B) {
	for name, test := range map[string]struct{ schema, args string }{
		"recursion": {`{"$ref":"#/$defs/a","$defs":{"a":{"allOf":[
			{"properties":{"x":{"$ref":"#/$defs/a"}}},{"properties":{"x":{"$ref":"#/$defs/a"}}}]}}}`,
			strings.Repeat(`{"x":`, 90) + "0" + strings.Repeat("}", 90)},
		"kinds": {`{"items":{"oneOf":[` + strings.Repeat(`{"required":["a"]},`, 1000) + `true]}}`,
			`[` + strings.Repeat("{},", 5000) + `{}]`},
		"pattern": {`{"items":{"pattern":"(x+x+)+y"}}`, `["` + strings.Repeat("x", 1<<20) + `"]`},
		"numbers": {`{"items":{"multipleOf":0.7}}`, `[` + strings.Repeat(strings.Repeat("7", 300)+",", 10_000) + `7]`},
		"unique": {`{"uniqueItems":true}`, `[` + strings.Repeat("1111111111111111111111,", 1) +
			strings.Repeat("[1],[2],", 30_000) + `7]`},
	} {
		s := compile(b, test.schema)
		b.Run(name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				_ = s.Check(b.Context(), []byte(test.args))
			}
		})
	}
}

// TestSize: Size is at least the memory of a schema, whatever it has most of.
func TestSize(t *testing.T) { //nolint:paralleltest // it measures the heap of the process
	for name, one := range map[string]string{
		"anything":  `{"properties":{` + list(5000, `"p%d":{}`) + `}}`,
		"booleans":  `{"properties":{` + list(5000, `"p%d":true`) + `}}`,
		"types":     `{"properties":{` + list(5000, `"p%d":{"type":"string"}`) + `}}`,
		"described": `{"properties":{` + list(2000, `"p%d":{"type":"string","description":"A city."}`) + `}}`,
		"enums":     `{"properties":{` + list(5000, `"p%d":{"enum":[1,2,3]}`) + `}}`,
		"lists":     `{"anyOf":[` + list(1000, `{"allOf":[{},{"not":{"const":%d}}]}`) + `]}`,
		"values":    `{"enum":[` + list(30_000, `%d`) + `]}`,
		"objects":   `{"enum":[` + list(15_000, `{"a":%d}`) + `]}`,
		"empty":     `{"examples":[` + list(15_000, `[%d,[],{}]`) + `]}`,
		"required":  `{"required":[` + list(20_000, `"p%d"`) + `]}`,
		"patterns":  `{"anyOf":[` + list(10, `{"pattern":"(a{1000})(b{1000})%d"}`) + `]}`,
		"classes":   `{"anyOf":[` + list(20, `{"pattern":"\\pL%d"}`) + `]}`,
		"letters":   `{"anyOf":[` + list(20, `{"pattern":"^[a-z_%d]+(x|y|zz)*$"}`) + `]}`,
	} {
		var before, after runtime.MemStats
		runtime.GC()
		runtime.ReadMemStats(&before)
		s := compile(t, one)
		runtime.GC()
		runtime.ReadMemStats(&after)
		heap := int(after.HeapAlloc) - int(before.HeapAlloc)
		t.Logf("%s: %d bytes, %d of heap, size %d", name, len(one), heap, s.Size())
		if heap > s.Size()+1<<20 {
			t.Errorf("%s: %d bytes of heap, size %d", name, heap, s.Size())
		}
	}
}

// list returns n items.
func list(n int, format string) string {
	items := make([]string, n)
	for i := range items {
		items[i] = fmt.Sprintf(format, i)
	}
	return strings.Join(items, ",")
}
