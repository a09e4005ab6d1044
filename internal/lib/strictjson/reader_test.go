package strictjson_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"reflect"
	"slices"
	"strings"
	"testing"
	"unicode/utf16"

	"github.com/capgate/capgate/internal/lib/strictjson"
	"github.com/capgate/capgate/internal/testkit/check"
)

func in16(s string) string {
	var b []byte
	for _, u := range utf16.Encode([]rune(s)) {
		b = append(b, byte(u), byte(u>>8))
	}
	return string(b)
}

func TestRead(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		text, want string
		ambiguous  bool
	}{
		{`{}`, "", false},
		{" [\t1,\n-0.5e+9, \"\\ud83d\\ude00\", null,true,false,{\"a\":{}}]\r\n", "", false},
		{`"\u0000"`, "", false},
		{`{"a":1,"A":2}`, "", false},
		{`[{"a":1},{"a":2}]`, "", false},
		{`{"a":{"a":{"a":1}}}`, "", false},
		{strings.Repeat("[", 100) + strings.Repeat("]", 100), "", false},
		{`1` + strings.Repeat("0", 307), "", false},
		{`0e99999`, "", false},
		{`-1.7e308`, "", false},
		{`4.9e-324`, "", false},
		{`{"a":1,"b":2,"a":3}`, "has a name twice in one object, at byte 13", true},
		{`{"a":1,"\u0061":2}`, "has a name twice", true},
		{`[[{"x":{"a/b":1,"a\/b":2}}]]`, "has a name twice", true},
		{many(40, `"a7":1`), "has a name twice", true},
		{"\ufeff{}", "byte order mark", true},
		{in16(`{}`), "has a NUL byte", true},
		{"\xff\xfe" + in16(`{}`), "has a NUL byte", true},
		{"\"\xff\"", "is not valid UTF-8", true},
		{`{} {}`, "more than one JSON value", true},
		{`{}x`, "more than one JSON value", true},
		{`["\ud800"]`, "lone surrogate at byte 2", true},
		{`["\ude00\ud83d"]`, "lone surrogate", true},
		{`["\ud83d\u0041"]`, "lone surrogate", true},
		{`["\ud83dx"]`, "lone surrogate", true},
		{`["\ude00\ude00"]`, "lone surrogate at byte 2", true},
		{`["\ud83d\ud83d"]`, "lone surrogate at byte 2", true},
		{`["\ud83d\ue000"]`, "lone surrogate at byte 2", true},
		{`{"a\u0000":1}`, "has a NUL in a name", true},
		{`[NaN]`, "NaN or Infinity at byte 1", true},
		{`[Infinity]`, "NaN or Infinity", true},
		{`[-Infinity]`, "NaN or Infinity", true},
		{`[1e309]`, "at byte 1 that is out of the range", true},
		{`[-1e999999]`, "out of the range", true},
		{`[1e-400]`, "out of the range", true},
		{`1` + strings.Repeat("0", 400), "out of the range", true},
		{`1` + strings.Repeat("0", 1<<20), "more than 512 digits", true},
		{strings.Repeat("[", 101), "more than 100 levels", false},
		{strings.Repeat(`{"a":`, 1<<20), "more than 100 levels", false},
		{``, "is not JSON from byte 0", false},
		{`{`, "is not JSON", false},
		{`{"a"`, "is not JSON", false},
		{`{"a":1,}`, "is not JSON", false},
		{`{,}`, "is not JSON", false},
		{`[1,]`, "is not JSON", false},
		{`[1 2]`, "is not JSON", false},
		{`{a:1}`, "is not JSON", false},
		{`{'a':1}`, "is not JSON", false},
		{`[01]`, "is not JSON", false},
		{`[1.]`, "is not JSON", false},
		{`[.5]`, "is not JSON", false},
		{`[+1]`, "is not JSON", false},
		{`[1e]`, "is not JSON", false},
		{`["\x"]`, "is not JSON", false},
		{`["\u12"]`, "is not JSON", false},
		{"[\"a\nb\"]", "is not JSON", false},
		{"[1] // c", "more than one", true},
		{`[tru]`, "is not JSON", false},
		{"\v1", "is not JSON", false},
	} {
		err := strictjson.Check([]byte(test.text))
		var e *strictjson.Error
		switch {
		case test.want == "" && err != nil:
			t.Errorf("%.60q: %v", test.text, err)
		case test.want != "" && (err == nil || !strings.Contains(err.Error(), test.want)):
			t.Errorf("%.60q: %v, want %q", test.text, err, test.want)
		case err != nil && (!errors.As(err, &e) || e.Ambiguous != test.ambiguous):
			t.Errorf("%.60q: ambiguous is not %v", test.text, test.ambiguous)
		}
	}
}

// TestPlaces: an error names the byte, and in a text of several lines the line, and knows how deep it is.
func TestPlaces(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]struct {
		place string
		depth int
	}{
		`{"a":[1e999]}`:                 {"at byte 6 that", 2},
		`{"a":1,"a":2}`:                 {"object, at byte 7", 1},
		"{\"a\":1,\n \"a\":2}":          {"object, at byte 9 (line 2, column 2)", 1},
		"[\n\n\"\\ud800\"]":             {"at byte 4 (line 3, column 2)", 1},
		`[` + many(20, `"a1":1`) + `]`:  {"object, which ends at byte 158", 2},
		"{}\n{}":                        {"the second begins at byte 3 (line 2, column 1)", 0},
		"\ufeff{}":                      {"byte order mark", 0},
		`{"a":` + "\n" + `x}`:           {"from byte 6 on (line 2, column 1)", 1},
		strings.Repeat("[", 101):        {"levels deep", 100},
		"[\n" + strings.Repeat("[", 99): {"from byte 101 on (line 2, column 100)", 100},
	} {
		var e *strictjson.Error
		if err := strictjson.Check([]byte(text)); !errors.As(err, &e) || !strings.HasSuffix(want.place, "that") &&
			!strings.HasSuffix(e.Error(), want.place) || !strings.Contains(e.Error(), want.place) ||
			e.Depth != want.depth {
			t.Errorf("%.60q: %v, depth %d; want %+v", text, err, e.Depth, want)
		}
	}
}

// many returns an object of so many names, and one more.
func many(n int, more string) string {
	var b strings.Builder
	b.WriteString("{")
	for i := range n {
		b.WriteString(`"a` + string(rune('0'+i%10)) + strings.Repeat("x", i/10) + `":1,`)
	}
	return b.String() + more + "}"
}

// TestNameTwice: a name that repeats another one is found among any number of names, wherever the other one is.
func TestNameTwice(t *testing.T) {
	t.Parallel()
	for n := 1; n <= 40; n++ {
		var names []string
		for i := range n {
			names = append(names, fmt.Sprintf(`"n%d":%d`, i, i))
		}
		once := strings.Join(names, ",")
		if err := strictjson.Check([]byte("{" + once + "}")); err != nil {
			t.Errorf("%d names: %v", n, err)
		}
		for i := range n {
			if strictjson.Check([]byte("{"+once+","+names[i]+"}")) == nil {
				t.Errorf("of %d names the last one repeats that at %d", n+1, i)
			}
		}
	}
}

func TestFold(t *testing.T) {
	t.Parallel()
	for text, twice := range map[string]bool{
		`{"a":1,"b":1}`:                false,
		`{"a":1,"A":1}`:                true,
		`{"a":1,"\u0041":1}`:           true,
		`{"kind":1,"\u212aIND":1}`:     true, // the Kelvin sign
		"{\"last\":1,\"la\u017ft\":1}": true, // the long s
		`{"ÄÖ":1,"äö":1}`:              true,
		`{"ı":1,"I":1}`:                false,
		many(40, `"A7":1`):             true,
		many(40, `"b":1`):              false,
	} {
		r := strictjson.Get()
		if err := r.Read([]byte(text), strictjson.Options{Fold: true}); (err != nil) != twice {
			t.Errorf("%s: %v", text, err)
		}
		r.Release()
	}
	if strictjson.Fold("naïve ſK") != strictjson.Fold("NAÏVE sk") {
		t.Error("these are the same in another case")
	}
}

func TestWatch(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{
		`{"the_id":"a","other":"b"}`:                      "a",
		`{"other":["b",{"THE_id":"a"}]}`:                  "a",
		`{"the\u005fid":"\u0061"}`:                        "a",
		`{"the_id":["a",{"b":"c"},7,null],"d":"e"}`:       "a,c,7",
		`{"the_id":{},"b":"c"}`:                           "",
		`{"the_id":{"x":["a"]},"b":{"the_id":"c"}}`:       "a,c",
		`{"x":"{\"the_id\":\"a\"}","y":"b"}`:              "a",
		`{"x":"\n {\"the_id\":\"a\"}"}`:                   "a",
		`{"x":"\u007b\"the\\u005fid\":\"a\"}"}`:           "a",
		`{"x":"\"{\\\"the_id\\\":\\\"a\\\"}\""}`:          "a",
		`{"x":"{ \\bf the text}"}`:                        "",
		`{"x":"\\\\server\\the_id"}`:                      "",
		`{"x":"{the_id:1}"}`:                              "error",
		`{"x":"{\"the\\u005fid\":1,\"the_id\":2}"}`:       "error",
		`{"x":"{\"the_id\":\"a\"} trailing"}`:             "error",
		`{"x":"{\"the\\u005fid\":\"a\"} trailing"}`:       "error",
		`{"x":"use the_id"}`:                              "",
		`["the_id","b"]`:                                  "",
		`{"the_idx":"a","xthe_id":"b"}`:                   "",
		`{"the_id":"a","The_Id":"b"}`:                     "a,b",
		`"{\"the_id\":\"a\"}"`:                            "a",
		"\"" + strings.Repeat(`[`, 300) + " the_id" + `"`: "error",
	} {
		var ids []string
		w := strictjson.NewWatch("the_id", func(v []byte) { ids = append(ids, string(v)) })
		r := strictjson.Get()
		got := "error"
		if err := r.Read([]byte(text), strictjson.Options{Watch: w}); err == nil {
			got = strings.Join(ids, ",")
		}
		r.Release()
		if got != want {
			t.Errorf("%s: %q, want %q", text, got, want)
		}
		if want != "" && !w.MayContain([]byte(text)) {
			t.Errorf("%s: the name is said not to be there", text)
		}
	}
	w := strictjson.NewWatch("the_id", nil)
	for text, want := range map[string]bool{
		"": false, "the_i": false, "_id": false, "_the_id": true, "THE_ID": true, `\`: true, "\x00": true,
		"\ufeff{}": true,
		"_____the": false, in16("{}"): true,
	} {
		if w.MayContain([]byte(text)) != want {
			t.Errorf("%q: not %v", text, want)
		}
	}
}

// TestReaderAfterAnError: a Reader knows nothing of a text that broke off.
func TestReaderAfterAnError(t *testing.T) {
	t.Parallel()
	r := strictjson.Get()
	defer r.Release()
	found := 0
	w := strictjson.NewWatch("the_id", func([]byte) { found++ })
	for _, o := range []strictjson.Options{{Watch: w}, {}} {
		if err := r.Read([]byte(`{"the_id":[`), strictjson.Options{Watch: w}); err == nil {
			t.Fatal("half a text is read")
		}
		if err := r.Read([]byte(`{"x":["a",7]}`), o); err != nil || found > 0 {
			t.Errorf("%v; found %d times", err, found)
		}
	}
}

func TestValues(t *testing.T) {
	t.Parallel()
	text := ` {"a":[1,"\u0062",{"c":null},[],{}],"\u0064":true,"e":false} `
	r := strictjson.Get()
	defer r.Release()
	check.Must(t, r.Read([]byte(text), strictjson.Options{Keep: true}))
	want := map[string]any{"a": []any{json.Number("1"), "b", map[string]any{"c": nil}, []any{}, map[string]any{}},
		"d": true, "e": false}
	if got := r.Root().Any(); !reflect.DeepEqual(got, want) {
		t.Errorf("%#v", got)
	}
	a, _ := r.Root().Get("a")
	if a.Len() != 5 || r.Root().Len() != 3 || a.Kind() != strictjson.Array || a.Index() != 2 {
		t.Error(a.Len(), r.Root().Len(), a.Kind(), a.Index())
	}
	if _, there := r.Root().Get("b"); there {
		t.Error("there is no b")
	}
	check.Must(t, r.Read([]byte(text), strictjson.Options{Keep: true, Depth: 1}))
	a, _ = r.Root().Get("a")
	if d, there := r.Root().Get("d"); !there || d.Kind() != strictjson.True || d.Index() != 4 || r.Root().Len() != 3 ||
		string(a.Raw()) != `[1,"\u0062",{"c":null},[],{}]` {
		t.Errorf("without inner values: %v %d, %s", there, d.Index(), a.Raw())
	}
	var e *strictjson.Error
	if err := r.Read([]byte(text), strictjson.Options{Values: 10}); !errors.As(err, &e) || !e.TooMany {
		t.Errorf("%v: %+v", err, e)
	}
	for most, fits := range map[int]bool{13: false, 14: true} {
		if err := r.Read([]byte(text), strictjson.Options{Values: most}); (err == nil) != fits {
			t.Errorf("14 values and names, at most %d: %v", most, err)
		}
	}
}

// FuzzRead: encoding/json accepts all accepted input and reads the same, even without regard to case. It rejects all
// rejected input, other than input about which decoders differ.
func FuzzRead(f *testing.F) {
	for _, text := range []string{
		`{"a":[1,-2.5e3,"\u00e9\ud83d\ude00",null,true,false,{}]}`, `{"a":1,"a":2}`, `{"a":1,"A":2}`, "\ufeff{}",
		`[1e400]`, `["\ud800"]`,
		`{"a\u0000b":1}`, `NaN`, `{} {}`, `"{\"capability_artifact_id\":\"x\"}"`,
		`{"capability_artifact_id":[["x"]]}`, many(30, `"z":1`),
	} {
		f.Add([]byte(text))
	}
	f.Fuzz(func(t *testing.T, text []byte) {
		var ids []string
		w := strictjson.NewWatch("capability_artifact_id", func(v []byte) { ids = append(ids, string(v)) })
		r := strictjson.Get()
		defer r.Release()
		err := r.Read(text, strictjson.Options{Keep: true, Fold: true, Watch: w})
		var e *strictjson.Error
		if err != nil {
			if errors.As(err, &e) && !e.Ambiguous && json.Valid(text) && !strings.Contains(err.Error(), "levels deep") {
				t.Fatalf("%q is JSON, but: %v", text, err)
			}
			return
		}
		d := json.NewDecoder(bytes.NewReader(text))
		d.UseNumber()
		var want any
		if err := d.Decode(&want); err != nil {
			t.Fatalf("%q is taken, but: %v", text, err)
		}
		if got := r.Root().Any(); !reflect.DeepEqual(got, want) {
			t.Fatalf("%q: %#v, not %#v", text, got, want)
		}
		if !numbersFit(want) {
			t.Fatalf("%q has a number that is no double", text)
		}
		for _, id := range idsIn(want) {
			if !slices.Contains(ids, id) {
				t.Fatalf("%q: %q was overlooked", text, id)
			}
		}
		if !w.MayContain(text) && len(ids) > 0 {
			t.Fatalf("%q has names that Within does not see", text)
		}
	})
}

func numbersFit(v any) bool {
	switch v := v.(type) {
	case json.Number:
		f, err := v.Float64()
		return err == nil && !math.IsInf(f, 0)
	case []any:
		return !slices.ContainsFunc(v, func(e any) bool { return !numbersFit(e) })
	case map[string]any:
		for _, e := range v {
			if !numbersFit(e) {
				return false
			}
		}
	}
	return true
}

func idsIn(v any) (ids []string) {
	switch v := v.(type) {
	case []any:
		for _, e := range v {
			ids = append(ids, idsIn(e)...)
		}
	case map[string]any:
		for name, e := range v {
			if s, ok := e.(string); ok && strings.EqualFold(name, "capability_artifact_id") {
				ids = append(ids, s)
			}
			ids = append(ids, idsIn(e)...)
		}
	}
	return ids
}

var benchmarked = []byte(`{"location":"Berlin","days":3,"units":"metric","nested":{"list":[1,2,3,4,5,6],"text":"` +
	strings.Repeat("word ", 200) + `"}}`)

func BenchmarkCheck(b *testing.B) {
	b.ReportAllocs()
	b.SetBytes(int64(len(benchmarked)))
	for b.Loop() {
		check.Must(b, strictjson.Check(benchmarked))
	}
}

// TestRawEndsAtItsBracket: brackets and quotes in strings, also after backslashes, do not end the text of a value.
func TestRawEndsAtItsBracket(t *testing.T) {
	t.Parallel()
	for _, text := range []string{`{}`, `{"a":""}`, `{"]":"}"}`, `["\\"]`, `["\\\\"]`, `["\""]`, `["\\\"]"]`,
		`["\\\\\"}","\\"]`,
		`{"\\":["\"","\\"],"\"":{"b":"\u005c\""}}`} {
		r := strictjson.Get()
		check.Must(t, r.Read([]byte(`[`+text+`,"]}"]`), strictjson.Options{Keep: true}))
		for _, v := range r.Root().Elements() {
			if got := string(v.Raw()); v.Kind() != strictjson.String && got != text {
				t.Errorf("%s: got %s", text, got)
			}
		}
		r.Release()
	}
}
