package manifest_test

import (
	"strings"
	"testing"

	"github.com/capgate/capgate/internal/manifest"
	"github.com/capgate/capgate/internal/testkit/check"
	"github.com/capgate/capgate/internal/toolschema"
)

// listed returns a tool of a discovery tool's answer with extras.
func listed(t *testing.T, extras string) manifest.Tool {
	t.Helper()
	tools, err := manifest.ParseTools([]byte(`[{"name":"a","description":"d","input_schema":{},"mcp":` + extras + `}]`))
	check.Must(t, err)
	return tools[0]
}

// TestExtras: what an MCP server lists of a tool is kept as it is. A member of another type than MCP's, which clients
// would reject with the whole list, is left out alone.
func TestExtras(t *testing.T) {
	t.Parallel()
	const icons = `[{"src":"a","mimeType":"m","sizes":["any"],"theme":"dark","x":1}]`
	for extras, want := range map[string]string{
		`{"title":"T","icons":` + icons +
			`,"annotations":{"readOnlyHint":true,"x":[]},"_meta":{"n":9007199254740993}}`: `` +
			`{"_meta":{"n":9007199254740993},"annotations":{"readOnlyHint":true,"x":[]},"icons":[{"mimeType":"m","sizes":["any"],` + `"src":"a","theme":"dark","x":1}],"title":"T"}`,
		`{"title":"","annotations":{}}`:                               `{"annotations":{},"title":""}`,
		`{"title":7,"icons":{},"annotations":[],"_meta":"m"}`:         "",
		`{"title":null,"icons":null,"annotations":null,"_meta":null}`: "",
		`{"icons":[{"mimeType":"m"}]}`:                                "",
		`{"icons":[{"src":"a","sizes":"48x48"}],"title":"T"}`:         `{"title":"T"}`,
		`{"annotations":{"readOnlyHint":"yes","destructiveHint":false,"title":null,"x":null}}`: `{"annotations":{"destructiveHint":` +
			`false,"x":null}}`,
		`{"_meta":{"a":"` + strings.Repeat("a", manifest.MaxExtras) + `"},"title":"T"}`: "",
		`{"execution":{}}`: "", `7`: "", `null`: "", `[]`: "",
	} {
		if got := string(listed(t, extras).Extras.JSON()); got != want {
			t.Errorf("%.80s: %.200s\nwant %s", extras, got, want)
		}
	}
}

// TestHashOfExtras: a tool without extras has the hash that it had before there were any. With them, it changes with
// each member, and not with their formatting.
func TestHashOfExtras(t *testing.T) {
	t.Parallel()
	plain := listed(t, `null`)
	if plain.Hash() != plain.Schema.Hash("d", nil) {
		t.Error("the hash of a tool without extras has changed")
	}
	seen := map[toolschema.Hash]string{plain.Hash(): "none"}
	for _, extras := range []string{`{"title":"T"}`, `{"icons":[]}`, `{"annotations":{"readOnlyHint":true}}`,
		`{"annotations":{"readOnlyHint":false}}`, `{"_meta":{"a":1,"b":2}}`, `{"title":"T","_meta":{}}`} {
		tool := listed(t, extras)
		if other := seen[tool.Hash()]; other != "" {
			t.Errorf("%s has the hash of %s", extras, other)
		}
		seen[tool.Hash()] = extras
	}
	a, b := listed(t, `{"_meta":{"a":1,"b":2}}`), listed(t, `{ "_meta" : {"b":2.0, "a":1} }`)
	if a.Hash() != b.Hash() {
		t.Error("the hash depends on the formatting")
	}
}
