package settings_test

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/capgate/capgate/internal/settings"
	"github.com/capgate/capgate/internal/testkit/check"
)

// TestToolsetWarnings: a check names entries of toolsets that choose no tool of a known manifest, or another version,
// and fixed arguments that its schema rejects.
func TestToolsetWarnings(t *testing.T) {
	t.Parallel()
	manifest := filepath.Join(t.TempDir(), "manifest.yaml")
	check.Must(t, os.WriteFile(manifest, []byte("id: known\nimage: i\ntools: [{name: get, description: d, "+
		"input_schema: {type: object, properties: {city: {type: string}}, required: [id]}, "+
		"recommended_policy: ask}]\n"), 0o600))
	const hash = "0000000000000000000000000000000000000000000000000000000000000001"
	const mismatch = "toolsets[0].tools[0]: the fixed arguments do not match the schema of get: "
	file := "fleets:\n- {capability: known, backends: ['b:1'], manifest: " + manifest +
		"}\n- {capability: other, policy: ask, backends: ['b:2']}\ntoolsets:\n"
	for entry, want := range map[string]string{
		"{capability: known}":             "",
		"{capability: known, tool: 'g*'}": "",
		"{capability: other, tool: any}":  "",
		"{capability: '*', tool: x}":      "",
		"{capability: known, tool: put}":  "toolsets[0].tools[0]: no tool of known matches put",
		"{capability: 'k*', tool: 'p*'}":  "toolsets[0].tools[0]: no tool of k* matches p*",
		"{capability: none}":              "toolsets[0].tools[0]: there is no fleet none",

		"{capability: known, tool: get, hash: " + hash: "toolsets[0].tools[0]: the hash of get has changed, so",

		"{capability: known, tool: get, arguments: {city: Bonn}}": "",
		"{capability: known, tool: get, arguments: {city: 1}}":    mismatch + `at "/city": got number, want string`,
		"{capability: known, tool: get, arguments: {town: x}}":    mismatch + `at "/town": is not a property`,
		"{capability: known, tool: get, arguments: {City: x}}": "toolsets[0].tools[0]: the fixed arguments have " +
			`a name that differs only in case from "city" in the schema`,
	} {
		if strings.Contains(entry, "hash") {
			entry += "}"
		}
		_, warnings, err := settings.Check("f", []byte(file+"- {name: s, tools: ["+entry+"]}\n"))
		check.Must(t, err)
		if got := strings.Join(warnings, "\n"); !strings.HasPrefix(got, want) || want == "" && got != "" {
			t.Errorf("%s: %q, want %q", entry, warnings, want)
		}
	}
	_, warnings, err := settings.Check("f", []byte(file+"- {name: s, groups: [g], tools: [{capability: known}]}\n"))
	check.Must(t, err)
	if !slices.Contains(warnings, "toolsets[0]: no caller has it, because no issuer has claims.groups") {
		t.Errorf("got %q", warnings)
	}
}
