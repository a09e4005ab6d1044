package toolschema_test

import (
	"errors"
	"strings"
	"testing"

	"github.com/capgate/capgate/internal/testkit/check"
	"github.com/capgate/capgate/internal/toolschema"
)

const forecast = `{
	"type": "object",
	"properties": {
		"location": {"type": "string", "pattern": "^[A-Z]", "minLength": 2},
		"days": {"type": "integer", "minimum": 1, "maximum": 14},
		"share": {"type": "number", "exclusiveMaximum": 0.5},
		"units": {"enum": ["metric", "imperial"]},
		"stops": {"type": "array", "items": {"$ref": "#/$defs/stop"}, "maxItems": 3}
	},
	"required": ["location"],
	"additionalProperties": false,
	"$defs": {"stop": {"type": "object", "required": ["a/b"]}}
}`

func TestCheck(t *testing.T) {
	t.Parallel()
	schema, err := toolschema.Compile([]byte(forecast))
	check.Must(t, err)
	for args, want := range map[string]string{
		`{"location":"Berlin"}`: "",
		`{"location":"Berlin","days":14,"units":"metric","stops":[{"a/b":1}],"share":0.25}`: "",
		``:                                        `at "": missing property 'location'`,
		`{}`:                                      `at "": missing property 'location'`,
		`[]`:                                      `at "": got array, want object`,
		`{"location":7}`:                          `at "/location": got number, want string`,
		`{"location":"secret"}`:                   `at "/location": does not match the pattern "^[A-Z]"`,
		`{"location":"B"}`:                        `at "/location": minLength: got 1, want 2`,
		`{"location":"Berlin","days":987654}`:     `at "/days": must be at most 14`,
		`{"location":"Berlin","share":0.7}`:       `at "/share": must be less than 0.5`,
		`{"location":"Berlin","units":"secret"}`:  `at "/units": value must be one of 'metric', 'imperial'`,
		`{"location":"Berlin","other":1}`:         `at "/other": is not a property that is allowed`,
		`{"location":"Berlin","locatoin":1}`:      `at "/locatoin": is not a property that is allowed; did you mean "location"?`,
		`{"location":"Berlin","stops":[{}]}`:      `at "/stops/0": missing property 'a/b'`,
		`{"location":"Berlin","location":"Rome"}`: "has a name twice in one object, at byte 21",
		`{"location":"Berlin"} {}`:                "has more than one JSON value",
		`{"location":`:                            "is not JSON from byte",
		`{"location":"secret`:                     "is not JSON from byte",
		"{\"location\":\"\xff\"}":                 "is not valid UTF-8",
		strings.Repeat("[", 101):                  "is more than 100 levels deep",
	} {
		err := schema.Check(t.Context(), []byte(args))
		switch {
		case want == "" && err != nil:
			t.Errorf("%s: %v", args, err)
		case want != "" && (err == nil || !strings.Contains(err.Error(), want)):
			t.Errorf("%s: got %v, want %s", args, err, want)
		case err != nil && (strings.Contains(err.Error(), "secret") || strings.Contains(err.Error(), "987654")):
			t.Errorf("%s: the error repeats a value: %v", args, err)
		}
	}
}

// TestAViolationDoesNotRepeatTheValue: a value of a wrong format may be a secret.
func TestAViolationDoesNotRepeatTheValue(t *testing.T) {
	t.Parallel()
	schema := compile(t, `{"$schema":"http://json-schema.org/draft-07/schema#","properties":{"to":{"format":"email"}}}`)
	err := schema.Check(t.Context(), []byte(`{"to":"secret"}`))
	if err == nil || err.Error() != `at "/to": is not a valid email` {
		t.Error(err)
	}
}

func TestAViolationHasItsPlace(t *testing.T) {
	t.Parallel()
	schema, err := toolschema.Compile([]byte(`{"properties": {"a/b": {"properties": {"~": {"type": "null"}}}}}`))
	check.Must(t, err)
	var v *toolschema.Violation
	if err := schema.Check(t.Context(), []byte(`{"a/b": {"~": 1}}`)); !errors.As(err, &v) || v.Pointer != "/a~1b/~0" {
		t.Errorf("got %v; v %+v", err, v)
	}
}

func TestWhatIsNoSchema(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{
		``:                                 "is not JSON",
		`true`:                             "must be an object",
		`{"type":"a"}`:                     `is not a JSON Schema: at "/type"`,
		`{"pattern":"("}`:                  "is not a JSON Schema",
		`{"$ref":"#/no"}`:                  "is not a JSON Schema",
		`{"$ref":"other"}`:                 "is another document",
		`{"$ref":"http://127.0.0.1/s"}`:    "is another document",
		`{"a":` + strings.Repeat(`[`, 100): "is more than 100 levels deep",
		`{"a":"` + strings.Repeat("a", toolschema.MaxBytes) + `"}`: "at most 262144 are allowed",
	} {
		if _, err := toolschema.Compile([]byte(text)); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%.40s: got %v, want %s", text, err, want)
		}
	}
}

func TestHash(t *testing.T) {
	t.Parallel()
	hash := func(description, text string) toolschema.Hash {
		t.Helper()
		s, err := toolschema.Compile([]byte(text))
		check.Must(t, err)
		return s.Hash(description, nil)
	}
	first := hash("d", `{"type":"object","required":["a"]}`)
	if hash("d", "{ \"required\": [\"\\u0061\"],\n\"type\": \"object\" }") != first {
		t.Error("another form of the same schema has another hash")
	}
	if hash("e", `{"type":"object","required":["a"]}`) == first {
		t.Error("a changed description has the same hash")
	}
	if hash("d", `{"type":"object","required":["b"]}`) == first {
		t.Error("a changed schema has the same hash")
	}
	s, err := toolschema.Compile([]byte(`{"type":"object","required":["a"]}`))
	check.Must(t, err)
	if s.Hash("d", nil) != first {
		t.Error("a schema without that of a result has another hash")
	}
	if s.Hash("d", s) == first {
		t.Error("the schema of a result is no part of the hash")
	}
}

// TestHashKeepsPartsApart: a description cannot have the beginning of what is hashed after it, so that another schema
// has the same hash.
func TestHashKeepsPartsApart(t *testing.T) {
	t.Parallel()
	a, b := compile(t, `{"type":"object"}`), compile(t, `{"type":"object","required":["a"]}`)
	if a.Hash("d", b) == b.Hash("d"+string(a.JSON()), nil) {
		t.Error("two tools with other schemas have one hash")
	}
}

// TestHashKeepsDigits: numbers that 64-bit floating point would round have their own hashes, whose schemas have all
// digits, and other spellings of one number have one hash.
func TestHashKeepsDigits(t *testing.T) {
	t.Parallel()
	of := func(number string) *toolschema.Schema {
		return compile(t, `{"type":"object","properties":{"n":{"const":`+number+`,"title":"9007199254740993"}}}`)
	}
	hash := func(number string) toolschema.Hash { return of(number).Hash("d", nil) }
	for _, different := range [][2]string{
		{"9007199254740992", "9007199254740993"}, {"9007199254740993", "9007199254740994"},
		{"9007199254740993", `"9007199254740993"`}, {"9007199254740993", "-9007199254740993"},
		{"9223372036854775807", "9223372036854775808"}, {"0.1", "0.10000000000000001"},
		{"123456789012345678901234567890", "123456789012345678901234567891"},
	} {
		if hash(different[0]) == hash(different[1]) {
			t.Errorf("%s and %s have one hash", different[0], different[1])
		}
	}
	for _, same := range [][2]string{
		{"1", "1.0"}, {"9007199254740993", "9007199254740993.0"}, {"9007199254740993", "9.007199254740993e15"},
		{"90071992547409930", "9007199254740993E1"}, {"0", "-0"},
	} {
		if hash(same[0]) != hash(same[1]) {
			t.Errorf("%s and %s have two hashes", same[0], same[1])
		}
	}
	if text := string(of("9007199254740993").JSON()); !strings.Contains(text, `"const":9007199254740993,`) {
		t.Errorf("the schema's JSON is %s", text)
	}
}

func FuzzCheck(f *testing.F) {
	schema, err := toolschema.Compile([]byte(forecast))
	check.Must(f, err)
	f.Add([]byte(`{"location":"Berlin","days":3}`))
	f.Fuzz(func(t *testing.T, args []byte) { _ = schema.Check(t.Context(), args) })
}

func BenchmarkCheck(b *testing.B) {
	schema, err := toolschema.Compile([]byte(forecast))
	check.Must(b, err)
	args := []byte(`{"location":"Berlin","days":3,"units":"metric"}`)
	b.ReportAllocs()
	for b.Loop() {
		check.Must(b, schema.Check(b.Context(), args))
	}
}
