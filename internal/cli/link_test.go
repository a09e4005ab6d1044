package cli

import (
	"bytes"
	"encoding/json"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/capgate/capgate/internal/mcpclients"
	"github.com/capgate/capgate/internal/testkit/check"
)

// TestLinkPrintsEntries: each client gets an entry of its own form, and no file contains a key.
func TestLinkPrintsEntries(t *testing.T) {
	t.Setenv("CAPGATE_KEY", "cg_secret")
	for client, want := range map[string]string{
		"claude-code": `{"mcpServers":{"capgate":{"headers":{"Authorization":"Bearer ${CAPGATE_KEY}"},"type":"http",` +
			`"url":"http://localhost:8080/mcp"}}}`,
		"cursor": `{"mcpServers":{"capgate":{"headers":{"Authorization":"Bearer ${env:CAPGATE_KEY}"},` +
			`"url":"http://localhost:8080/mcp"}}}`,
		"gemini": `{"mcpServers":{"capgate":{"headers":{"Authorization":"Bearer $CAPGATE_KEY"},` +
			`"httpUrl":"http://localhost:8080/mcp"}}}`,
		"vscode": `{"inputs":[{"type":"promptString","id":"capgate-key","description":"API key of capgate",` +
			`"password":true}],"servers":{"capgate":{"headers":{"Authorization":"Bearer ${input:capgate-key}"},` +
			`"type":"http","url":"http://localhost:8080/mcp"}}}`,
	} {
		var out, errs, compact bytes.Buffer
		code := run(t.Context(), []string{"link", client, "--key"}, stdio{out: &out, err: &errs})
		if err := json.Compact(&compact, out.Bytes()); code != 0 || err != nil || compact.String() != want {
			t.Errorf("%s: %d %v\n%s%s", client, code, err, compact.String(), errs.String())
		}
	}
}

// TestLinkCompletesTheURL: a URL without the path of MCP gets it, below a path that a proxy adds; one with it stays.
func TestLinkCompletesTheURL(t *testing.T) {
	t.Parallel()
	for given, want := range map[string]string{
		"https://capgate.example.com":              "https://capgate.example.com/mcp",
		"https://capgate.example.com/":             "https://capgate.example.com/mcp",
		"https://example.com/capgate/":             "https://example.com/capgate/mcp",
		"https://example.com/capgate/mcp":          "https://example.com/capgate/mcp",
		"https://example.com/capgate/mcp/support":  "https://example.com/capgate/mcp/support",
		"https://example.com/mcp/":                 "https://example.com/mcp/",
		"http://localhost:8080?capability=weather": "http://localhost:8080/mcp?capability=weather",
	} {
		if code, out := linked(t, "cursor", "--url", given); code != 0 || !strings.Contains(out, `"`+want+`"`) {
			t.Errorf("%s: exit %d\n%s", given, code, out)
		}
	}
}

// linked runs capgate link.
func linked(t *testing.T, args ...string) (code int, out string) {
	t.Helper()
	var text bytes.Buffer
	code = run(t.Context(), append([]string{"link"}, args...), stdio{out: &text, err: io.Discard})
	return code, text.String()
}

// TestLinkWritesEntries: the written entry is the printed one. The rest of a file stays, digit by digit, with
// its mode, and an entry of the same name is replaced.
func TestLinkWritesEntries(t *testing.T) {
	for _, c := range mcpclients.All() {
		for name, test := range map[string]struct{ before, after string }{
			"no file":       {"", `{SERVERS:{"capgate":ENTRY}}`},
			"an empty file": {"\n", `{SERVERS:{"capgate":ENTRY}}`},
			"other members": {`{"z":[1.50,9007199254740993],SERVERS:{"mine":{"command":"a && b","args":["<é>"]}}}`,
				`{"z":[1.50,9007199254740993],SERVERS:{"capgate":ENTRY,"mine":{"command":"a && b","args":["<é>"]}}}`},
			"an entry of the name": {`{SERVERS:{"capgate":{"command":"x"},"b":{}}}`,
				`{SERVERS:{"capgate":ENTRY,"b":{}}}`},
			"inputs": {`{"inputs":[{"id":"mine"}]}`,
				`{"inputs":[{"id":"mine"}INPUT],SERVERS:{"capgate":ENTRY}}`},
		} {
			t.Chdir(t.TempDir())
			_, printed := linked(t, c.Name, "--key")
			parts := map[string]json.RawMessage{}
			check.Must(t, json.Unmarshal([]byte(printed), &parts))
			var servers map[string]json.RawMessage
			check.Must(t, json.Unmarshal(parts[c.Servers], &servers))
			input, wanted := "", test.after
			if list := string(bytes.TrimSpace(parts["inputs"])); list != "" {
				input = "," + list[1:len(list)-1]
				if !strings.Contains(wanted, `"inputs"`) {
					wanted = `{"inputs":` + list + "," + wanted[1:]
				}
			}
			fill := strings.NewReplacer("SERVERS", `"`+c.Servers+`"`, "ENTRY", string(servers["capgate"]), "INPUT",
				input)
			if test.before != "" {
				check.Must(t, os.MkdirAll(filepath.Dir(c.File), 0o700))
				check.Must(t, os.WriteFile(c.File, []byte(fill.Replace(test.before)), 0o600))
			}
			for range 2 { // again, it changes nothing
				if code, text := linked(t, c.Name, "--key", "--write"); code != 0 {
					t.Errorf("%s, %s: %d %s", c.Name, name, code, text)
				}
				text, err := os.ReadFile(c.File)
				check.Must(t, err)
				if got, want := exactly(t, text), exactly(t, []byte(fill.Replace(wanted))); got != want {
					t.Errorf("%s, %s: %s\nwant %s", c.Name, name, got, want)
				}
			}
			if about, err := os.Stat(c.File); err != nil || test.before != "" && about.Mode() != 0o600 {
				t.Errorf("%s, %s: %v, %v", c.Name, name, about.Mode(), err)
			}
		}
	}
}

// exactly returns JSON with each digit of its numbers, and sorted members.
func exactly(t *testing.T, text []byte) string {
	t.Helper()
	var v any
	d := json.NewDecoder(bytes.NewReader(text))
	d.UseNumber()
	check.Must(t, d.Decode(&v))
	out, err := json.Marshal(v)
	check.Must(t, err)
	return string(out)
}

// TestLinkFollowsLinks: a file that is a symbolic link stays one.
func TestLinkFollowsLinks(t *testing.T) {
	t.Chdir(t.TempDir())
	check.Must(t, os.WriteFile("shared.json", []byte("{}"), 0o640))
	check.Must(t, os.Symlink("shared.json", ".mcp.json"))
	code, text := linked(t, "claude-code", "--write")
	about, err := os.Lstat(".mcp.json")
	check.Must(t, err)
	shared, err := os.ReadFile("shared.json")
	check.Must(t, err)
	if code != 0 || about.Mode().Type() != os.ModeSymlink || !strings.Contains(string(shared), "/mcp") {
		t.Errorf("got %d %s, %v, %s", code, text, about.Mode(), shared)
	}
}

// TestLinkRefuses: a file with more than one reading, or none, is not changed.
func TestLinkRefuses(t *testing.T) {
	for _, c := range mcpclients.All() {
		for _, before := range []string{"{ // mine\n}", `{"a":1`, "[]", "null", `"x"`, `{"a":1,"a":2}`,
			"\xef\xbb\xbf{}", `{"` + c.Servers + `":[]}`, `{"` + c.Servers + `":null}`, `{"` + c.Servers +
				`":{"x":{"a":1,"a":2}}}`, "{} {}", `{"inputs":{}}`} {
			if strings.Contains(before, "inputs") && c.Name != "vscode" {
				continue
			}
			t.Chdir(t.TempDir())
			check.Must(t, os.MkdirAll(filepath.Dir(c.File), 0o700))
			check.Must(t, os.WriteFile(c.File, []byte(before), 0o600))
			var out bytes.Buffer
			code := run(t.Context(), []string{"link", c.Name, "--write", "--key"}, stdio{out: &out, err: &out})
			after, err := os.ReadFile(c.File)
			if err != nil || string(after) != before || code != 1 ||
				!strings.Contains(out.String(), "add the entry yourself") {
				t.Errorf("%s, %s: %d %s\n%s %v", c.Name, before, code, out.String(), after, err)
			}
			if all, err := os.ReadDir(filepath.Dir(c.File)); err != nil || len(all) != 1 {
				t.Errorf("%s, %s: %d files, %v", c.Name, before, len(all), err)
			}
		}
	}
	for _, args := range [][]string{{}, {"claude"}, {"cursor", "--url", "capgate"}, {"cursor", "--name", ""}} {
		if code, text := linked(t, args...); code != 2 {
			t.Errorf("%v: %d %s", args, code, text)
		}
	}
}
