package main

import (
	"bytes"
	"encoding/json"
	"os"
	"strings"
	"testing"
)

// TestLinkPrintsEntries: each client gets the entry of its own form, and no file has a key.
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

// TestLinkWritesEntries: the rest of a file stays, and a file that is not JSON is not changed.
func TestLinkWritesEntries(t *testing.T) {
	t.Chdir(t.TempDir())
	link := func(args ...string) (int, string) {
		var out bytes.Buffer
		code := run(t.Context(), append([]string{"link"}, args...), stdio{out: &out, err: &out})
		return code, out.String()
	}
	if code, text := link("cursor", "--write"); code != 0 {
		t.Fatalf("%d %s", code, text)
	}
	if err := os.WriteFile(".mcp.json", []byte(`{"other":1,"mcpServers":{"mine":{"command":"x"}}}`), 0o600); err != nil {
		t.Fatal(err)
	}
	for range 2 {
		if code, text := link("claude-code", "--write", "--url", "https://capgate.example.com/mcp"); code != 0 {
			t.Fatalf("%d %s", code, text)
		}
	}
	text, err := os.ReadFile(".mcp.json")
	if err != nil {
		t.Fatal(err)
	}
	var compact bytes.Buffer
	if err := json.Compact(&compact, text); err != nil ||
		compact.String() != `{"mcpServers":{"capgate":{"type":"http","url":"https://capgate.example.com/mcp"},`+
			`"mine":{"command":"x"}},"other":1}` {
		t.Errorf("%s %v", compact.String(), err)
	}
	const comments = "{ // mine\n}"
	if err := os.WriteFile(".mcp.json", []byte(comments), 0o600); err != nil {
		t.Fatal(err)
	}
	if code, text := link("claude-code", "--write"); code != 1 || !strings.Contains(text, "add the entry yourself") {
		t.Errorf("%d %s", code, text)
	}
	for _, args := range [][]string{{}, {"claude"}, {"cursor", "--url", "capgate"}, {"cursor", "--name", ""}} {
		if code, text := link(args...); code != 2 {
			t.Errorf("%v: %d %s", args, code, text)
		}
	}
}
