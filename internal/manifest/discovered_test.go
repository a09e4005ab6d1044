package manifest_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/capgate/capgate/internal/manifest"
	"github.com/capgate/capgate/internal/testkit/check"
)

func TestDiscoveredTools(t *testing.T) {
	t.Parallel()
	tools, err := manifest.ParseTools([]byte(` [
		{"name": "read_file", "description": "Read contents of a file", "recommended_policy": "ask", "since": "1.2",
		 "input_schema": {"type": "object", "properties": {"path": {"type": "string"}}, "required": ["path"]}},
		{"name": "list", "description": "d", "input_schema": {}, "recommended_policy": "maybe"},
		{"name": "stop", "description": "d", "input_schema": {}, "recommended_policy": "allow",
		 "terminal_on_success": true},
		{"name": "ask", "description": "d", "input_schema": {}, "recommended_policy": null,
		 "requires_confirmation": true}
	]`))
	check.Must(t, err)
	var got []string
	for _, tool := range tools {
		got = append(got, fmt.Sprint(tool.Name, " ", tool.Recommended, " ", tool.TerminalOnSuccess))
	}
	if want := "read_file ask false, list block false, stop allow true, ask ask false"; strings.Join(got,
		", ") != want {
		t.Errorf("got %q, want %q", got, want)
	}
	if tools, err := manifest.ParseTools([]byte("[]")); err != nil || len(tools) != 0 {
		t.Errorf("none: %v, %v", tools, err)
	}
}

func TestWhatIsNoAnswer(t *testing.T) {
	t.Parallel()
	const good = `{"name":"a","description":"d","input_schema":{}}`
	for answer, want := range map[string]string{
		``:                            "is not a JSON array",
		`{"tools":[]}`:                "is not a JSON array",
		`null`:                        "is not a JSON array",
		`["a"]`:                       "is not a JSON array of tools with",
		`[` + good:                    "is not JSON from byte",
		`[` + good + `] []`:           "more than one JSON value",
		`[` + good + `,` + good + `]`: `tool 2, "a": is given twice`,
		`[{"description":"d","input_schema":{}}]`:              `tool 1, "": "" is not a tool's name`,
		`[{"name":"a","input_schema":{}}]`:                     `tool 1, "a": has no description`,
		`[{"name":"a","description":"d"}]`:                     `tool 1, "a": input_schema is not JSON`,
		`[{"name":"a","description":"d","input_schema":"{}"}]`: `input_schema must be an object`,
		`[{"name":"a","name":"b","description":"d"}]`:          "has a name twice in one object",
		`[{"name":"a","description":7,"input_schema":{}}]`:     "is not a JSON array of tools with",
		`[` + strings.Repeat(good+",", 1000) + good +
			`]`: "has 1001 tools; a capability may have at most 1000",
		`[{"name":"a","description":"d","input_schema":{},"output_schema":7}]`: `output_schema must be an object`,
		`["` + strings.Repeat("a", manifest.MaxBytes) + `"]`:                   "are allowed",
		`[{"name":"a","description":"d","input_schema":` + "[]}]":              "must be an object",
	} {
		if _, err := manifest.ParseTools([]byte(answer)); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%.60s: got %v, want %s", answer, err, want)
		}
	}
}

func FuzzParseTools(f *testing.F) {
	f.Add([]byte(`[{"name":"a","description":"d","input_schema":{}}]`))
	f.Fuzz(func(t *testing.T, answer []byte) {
		tools, err := manifest.ParseTools(answer)
		for _, tool := range tools {
			if err != nil || tool.Name == "" || tool.Schema == nil {
				t.Errorf("%+v, %v", tool, err)
			}
		}
	})
}
