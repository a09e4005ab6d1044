package invocation_test

import (
	"errors"
	"strings"
	"testing"

	"github.com/capgate/capgate/gateway/frontdoor/invocation"
	"github.com/capgate/capgate/internal/call"
	"github.com/capgate/capgate/internal/lib/strictjson"
	"github.com/capgate/capgate/internal/testkit/check"
)

// TestRead: a call has one reading, in the names of the proto and of protobuf's JSON mapping.
func TestRead(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{ // tool, args, config, session and thread; or the reason and the message
		`{"tool_name":"t"}`: "t {} {}  ",
		`{"toolName":"t","args":{"a":1.10},"config":{"k":"v"},"sessionId":"s","threadId":"h"}`: `t {"a":1.10} {"k":"v"} s h`,
		` {"tool\u005fname":"\u0074","args": { "a" : [1E2] } ,"args_json":""} `:                `t { "a" : [1E2] } {}  `,
		`{"tool_name":"t","argsJson":"_-8","config_json":"e30="}`:                              "t \xff\xef {}  ",
		`{"tool_name":"t","args":null,"session_id":null,"capability_id":"c"}`:                  "t {} {}  ",
		`{"tool_name":"t","args":{},"args_json":"e30="}`: "INVALID_BODY args and args_json are mutually " +
			"exclusive: set only one",
		`{"tool_name":"t","toolName":"t"}`:      "INVALID_BODY tool_name and toolName are the same field",
		`{"tool_name":null,"toolName":"t"}`:     "INVALID_BODY tool_name and toolName are the same field",
		`{"tool_name":"t","capability_id":"d"}`: "INVALID_BODY capability_id in the body",
		`{"tool_name":"t","argz":{}}`:           `INVALID_BODY the body has an unknown field "argz"; did you mean "args"?`,
		`{"tool_name":"t","args":[]}`:           "INVALID_BODY args must be a JSON object",
		`{"tool_name":7}`:                       "INVALID_BODY tool_name must be a string",
		`{"tool_name":""}`:                      "INVALID_BODY tool_name is required",
		`{"tool_name":"t","config_json":"!"}`:   "INVALID_BODY config_json must be base64",
		` `:                                     "INVALID_BODY the body is empty",
		`[]`:                                    "INVALID_BODY the body must be a JSON object",
		`{"tool_name":"\ud800"}`:                "INVALID_BODY the body has a lone surrogate at byte 14",
		`{"tool_name":"t","config":{"k":1e999}}`: "AMBIGUOUS_ARGUMENTS " +
			"the body has a number at byte 31",
		`{"tool_name":"t","args":{"k":x}}`: "INVALID_BODY the body is not JSON from byte 29 on",
	} {
		r := strictjson.Get()
		c, err := invocation.Read(r, []byte(text), "c")
		got := strings.Join([]string{string(c.Tool), string(c.Args), string(c.Config), string(c.Session),
			string(c.Thread)}, " ")
		if err != nil {
			got = textOf(t, err)
		}
		if err == nil && got != want || !strings.HasPrefix(got, want) {
			t.Errorf("%s: %s; want %s", text, got, want)
		}
		r.Release()
	}
}

// TestManyArguments: values in arguments take no memory besides their text, however many there are.
func TestManyArguments(t *testing.T) { //nolint:paralleltest // allocations of other tests would count
	read := func(values int) float64 {
		text := []byte(`{"tool_name":"t","args":{"a":[0` + strings.Repeat(",0", values) + `]},"config":{}}`)
		return testing.AllocsPerRun(5, func() {
			if c, err := invocation.Read(new(strictjson.Reader), text, "c"); err != nil || len(c.Args) < values {
				t.Errorf("%d bytes of arguments: %v", len(c.Args), err)
			}
		})
	}
	if few, many := read(1), read(100_000); many != few {
		t.Errorf("%v allocations for 100,000 values, %v for one", many, few)
	}
}

// textOf returns the reason and the message of an error.
func textOf(t *testing.T, err error) string {
	t.Helper()
	var r *call.Refusal
	if !errors.As(err, &r) || r.Kind != call.InvalidArgument {
		t.Fatalf("%v is no refusal of an invalid argument", err)
	}
	return r.Reason + " " + r.Message
}

func TestArguments(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{
		"":              "{}",
		" \r\n\t":       "{}",
		" {\"a\": 1}\n": `{"a": 1}`,
		"[]":            "WRONG args must be a JSON object",
		"null":          "WRONG args must be a JSON object",
		"{":             "WRONG args is not JSON from byte 1 on",
		`{"a":1,"a":2}`: "AMBIGUOUS_ARGUMENTS args has a name twice in one object, at byte 7",
		"\ufeff{}":      "AMBIGUOUS_ARGUMENTS args begins with a byte order mark",
		"{} {}":         "AMBIGUOUS_ARGUMENTS args has more than one JSON value: the second begins at byte 3",
	} {
		got, err := invocation.Arguments([]byte(text), "args", "WRONG")
		if err != nil {
			got = []byte(textOf(t, err))
		}
		if err == nil && string(got) != want || !strings.HasPrefix(string(got), want) {
			t.Errorf("%q: %s; want %s", text, got, want)
		}
	}
}

var usual = []byte(`{"tool_name":"get_current_weather","args":{"location":"Berlin","days":3},"session_id":"s1"}`)

func TestReadAllocatesNothing(t *testing.T) { //nolint:paralleltest // others allocate too
	r := new(strictjson.Reader)
	if n := testing.AllocsPerRun(100, func() {
		_, err := invocation.Read(r, usual, "weather")
		check.Must(t, err)
	}); n > 0 {
		t.Errorf("%v allocations", n)
	}
}

func BenchmarkRead(b *testing.B) {
	b.ReportAllocs()
	r := new(strictjson.Reader)
	for b.Loop() {
		if _, err := invocation.Read(r, usual, "weather"); err != nil {
			b.Fatal(err)
		}
	}
}
