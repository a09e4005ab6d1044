package strictyaml_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/capgate/capgate/internal/lib/strictyaml"
)

// fuzzed has a field of each kind.
type fuzzed struct {
	server  `yaml:",inline"`
	Servers []server          `yaml:"servers"`
	Retries map[string]*retry `yaml:"retries"`
	Retry2  *retry            `yaml:"retry2"`
	Ports   []int             `yaml:"ports" min:"1" max:"9"`
	Any     json.RawMessage   `yaml:"any"`
	Off     off               `yaml:"off"`
}

type off struct {
	Off bool `yaml:"-" enum:"off" scalar:""`
	N   int  `yaml:"n" default:"3"`
}

func decodeAll(text []byte) (f fuzzed, err error) {
	d := &strictyaml.Decoder{Reader: strictyaml.Reader{File: "f.yaml"}}
	d.Types = map[reflect.Type]*strictyaml.Kind{reflect.TypeFor[json.RawMessage](): {Name: "any value",
		Read: func(d *strictyaml.Decoder, at strictyaml.Place, v reflect.Value) {
			d.JSON(v.Addr().Interface().(*json.RawMessage))(at)
		}}}
	if root, ok := d.Document(text, "a server", "listen is required"); ok {
		d.Decode(root, &f)
	}
	return f, d.Err()
}

// laughs returns a document that stands for many more values than it has, below a field.
func laughs(field string, levels, width int) string {
	var b strings.Builder
	fmt.Fprintf(&b, "listen: a\n%s:\n- &l0 [x]\n", field)
	for i := 1; i < levels; i++ {
		fmt.Fprintf(&b, "- &l%d [%s]\n", i, strings.TrimSuffix(strings.Repeat(fmt.Sprintf("*l%d,", i-1), width), ","))
	}
	return b.String()
}

// TestFormsThatAreRefused: a file has one meaning, and is read in bounded memory and time.
func TestFormsThatAreRefused(t *testing.T) {
	t.Parallel()
	long := strings.Repeat("k", 100_000)
	deep := "any: &a0 x\n"
	for i := range 300 {
		deep += fmt.Sprintf("? [&a%d %s*a%d%s]\n: x\n", i+1, strings.Repeat("[", 9), i, strings.Repeat("]", 9))
	}
	for name, test := range map[string]struct{ text, want string }{
		"within itself":    {"listen: a\nany: &a {b: *a}\n", "f.yaml:2: the alias *a is within its own anchor"},
		"the whole":        {"&a\nlisten: a\nany: [*a]\n", "f.yaml:3: the alias *a is within its own anchor"},
		"tag of a text":    {"listen: !!binary aGVsbG8=\n", "f.yaml:1: the tag !!binary is not supported"},
		"tag of a mapping": {"listen: a\nretry: !x {share: 1}\n", "f.yaml:2: the tag !x is not supported"},
		"tag of a name":    {"!!str listen: a\n", "f.yaml:1: the tag !!str is not supported"},
		"levels":           {deep, "f.yaml:1: the file has more than 1000 levels"},
		"many values":      {laughs("any", 12, 9), "has more than 1000000 values"},
		"long texts": {"listen: a\nany: [&a " + long + strings.Repeat(", *a", 700) + "]\n",
			"has more than 1000000 values"},
		"many texts": {laughs("names", 12, 9), "must be a string"},
		"long name":  {"listen: a\n? " + long + "\n: 1\n", "f.yaml:2: kkk"},
		"long value": {"listen: a\nlevel: " + long + "\n", "f.yaml:2: level: \"kkk"},
		"long path and many values": {strings.Replace(strings.ReplaceAll(laughs("any", 12, 9), "\n- ", "\n  - "),
			"any:\n", "any:\n  ? "+long+"\n  :\n", 1), "has more than 1000000 values"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			_, err := decodeAll([]byte(test.text))
			if err == nil || !strings.Contains(err.Error(), test.want) || len(err.Error()) > 100_000 {
				t.Errorf("%.300v", err)
			}
		})
	}
	if f, err := decodeAll([]byte("listen: &a here\nany: [*a, *a]\n")); err != nil ||
		string(f.Any) != `["here","here"]` {
		t.Errorf("%s, %v", f.Any, err)
	}
}

// TestOneReading: what another reader could take for something else is refused: names that are there twice, mappings
// that are merged, and a second document.
func TestOneReading(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{
		"listen: a\n---\nlisten: b\n":            "a second document begins here; a server is one document",
		"listen: a\nany:\n  b: 1\n  'b': 2\n":    "f.yaml:4: any.b: given twice; the first is in line 3",
		"listen: a\nany: {<<: {b: 1}}\n":         "f.yaml:2: any.<<: a name in JSON must be a string",
		"listen: a\nany: {? [b] : 1}\n":          "a name in JSON must be a string",
		"listen: a\nretry: {<<: {share: 1}}\n":   "f.yaml:2: retry.<<: unknown field",
		"listen: a\nretries: {<<: {share: 1}}\n": "f.yaml:2: retries.<<: mappings cannot be merged",
	} {
		if _, err := decodeAll([]byte(text)); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v, want %q", text, err, want)
		}
	}
	if f, err := decodeAll([]byte("listen: a\nretries: {'<<': {share: 1}}\n")); err != nil || f.Retries["<<"] == nil {
		t.Errorf("a name in quotes: %+v, %v", f.Retries, err)
	}
}

// FuzzDecode: whatever a file is, it is decoded to the same values or errors each time; values are within their bounds,
// and errors have a place.
func FuzzDecode(f *testing.F) {
	for _, text := range []string{
		"listen: here\nretry: 0.5\n", "levl: debug\ntimeout: 5m\nnames: [a, b, a]\nretry: {share: 0, floor: 5}\n",
		"listen: a\nservers: [{listen: b}, &s {listen: c, names: [x]}, *s]\nretries: {a: 0.2, b: {floor: 3}}\n",
		"listen: a\nretry2: {share: .5}\nports: [1, 0x9]\nany: {a: [1, .5, 0x10, 2026-01-02, ~, true, 'x', 1_000]}\n",
		"listen: a\noff: off\n", "listen: a\noff: {n: 4}\n", "listen: a\n<<: {level: debug}\n", "? [a]\n: b\n",
		"listen: a\nany: &a {b: *a}\n", "listen: !!binary eA==\n", "--- a\n--- b\n", "{listen: a, listen: b}", "\xff",
		"", "listen: |\n  a\n  b\n", "listen: \"\\ud800\"\nany: \"\\u2028\\x00\"\n",
		"any: {1: a, '1': b}\nlisten: .nan\n", laughs("names", 3, 3),
	} {
		f.Add([]byte(text))
	}
	f.Fuzz(func(t *testing.T, text []byte) {
		got, err := decodeAll(text)
		again, err2 := decodeAll(text)
		if fmt.Sprint(err) != fmt.Sprint(err2) || !reflect.DeepEqual(got, again) &&
			!strings.Contains(fmt.Sprint(got), "NaN") {
			t.Fatalf("%+v, %v\nand then %+v, %v", got, err, again, err2)
		}
		var all strictyaml.Errors
		if err != nil && !errors.As(err, &all) {
			t.Fatalf("%T", err)
		}
		lines := strings.Count(string(text), "\n") + strings.Count(string(text), "\r") + 2
		for _, e := range all {
			if e.Line < 1 || e.Line > lines && !strings.ContainsAny(string(text), "\u0085\u2028\u2029") ||
				e.Text == "" {
				t.Errorf("%+v, of %d lines", e, lines)
			}
		}
		if err == nil {
			checkFuzzed(t, &got)
		}
	})
}

// checkFuzzed checks values that were accepted.
func checkFuzzed(t *testing.T, f *fuzzed) {
	t.Helper()
	for _, s := range append(f.Servers, f.server) {
		if s.Listen == "" || s.Level != "debug" && s.Level != "info" || s.Timeout < time.Second ||
			s.Timeout > time.Minute {
			t.Errorf("%+v", s)
		}
		seen := map[string]bool{}
		for _, name := range s.Names {
			if name == "" || seen[name] {
				t.Errorf("%q; name %+v", s.Names, name)
			}
			seen[name] = true
		}
		if !(s.Retry.Share >= 0 && s.Retry.Share <= 1) || s.Retry.Floor < 0 || s.Retry.Floor > 100 {
			t.Errorf("%+v", s.Retry)
		}
	}
	for name, r := range f.Retries {
		if name == "" || r == nil || !(r.Share >= 0 && r.Share <= 1) {
			t.Errorf("%q: %+v", name, r)
		}
	}
	if len(f.Ports) > 9 { // the tags of a list bound its length
		t.Errorf("%d ports", len(f.Ports))
	}
	if len(f.Any) > 0 && !json.Valid(f.Any) {
		t.Errorf("%s is not JSON", f.Any)
	}
}
