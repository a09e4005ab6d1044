package cli

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/capgate/capgate/internal/testkit/check"
)

// installed returns a program that tools/setup has installed.
func installed(t *testing.T, path ...string) string {
	t.Helper()
	file, err := filepath.Abs(filepath.Join(append([]string{root, "bin"}, path...)...))
	check.Must(t, err)
	if _, err := os.Stat(file); err != nil {
		t.Fatalf("%v: run `make setup`", err)
	}
	return file
}

// beside creates a directory from which node finds its packages.
func beside(t *testing.T) string {
	t.Helper()
	dir, err := os.MkdirTemp(installed(t, "node"), "test")
	check.Must(t, err)
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	return dir
}

// tells runs a program and returns its output.
func tells(t *testing.T, dir, name string, args ...string) string {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), name, args...)
	cmd.Dir = dir
	cmd.Env = append(cleanEnv(), "REDOCLY_TELEMETRY=off", "REDOCLY_SUPPRESS_UPDATE_NOTICE=true", "HOME="+dir)
	var stderr strings.Builder
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("%s %q: %v\n%s%s", filepath.Base(name), args, err, out, stderr.String())
	}
	return string(out)
}

func put(t *testing.T, dir, name, text string) {
	t.Helper()
	check.Must(t, os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600))
}

// snippet returns the tested block of docs/use/openapi.md in a language, for a gateway at addr.
func snippet(t *testing.T, language, addr string) string {
	t.Helper()
	for _, b := range blocks(t, "docs/use/openapi.md") {
		if b.info == language+" test" {
			return strings.ReplaceAll(b.text, "localhost:8080", addr)
		}
	}
	t.Fatalf("docs/use/openapi.md has no tested %s", language)
	return ""
}

// External validators accept the document, in both of its forms.
func TestOpenAPIIsValid(t *testing.T) {
	t.Parallel()
	_, greeting := startDemo(t)
	public, admin := addresses(greeting)
	dir := beside(t)
	// If the summary says everything, there is no description.
	put(t, dir, "spectral.yaml", "extends: ['spectral:oas']\nrules: {operation-description: off}\n")
	put(t, dir, "redocly.yaml", "extends: [recommended-strict]\n")
	for _, name := range []string{"openapi.json", "openapi.yaml"} {
		code, text := page(t, "http://"+public+"/"+name)
		if code != 200 {
			t.Fatalf("got %d %s", code, text)
		}
		put(t, dir, name, text)
		code, text = page(t, "http://"+admin+"/"+name)
		if code != 200 {
			t.Fatalf("got %d %s", code, text)
		}
		put(t, dir, "admin-"+name, text)
	}
	tells(t, dir, installed(t, "node", "node_modules", ".bin", "redocly"), "lint", "--config", "redocly.yaml",
		"openapi.json", "openapi.yaml", "admin-openapi.json", "admin-openapi.yaml")
	tells(t, dir, installed(t, "node", "node_modules", ".bin", "spectral"), "lint", "--ruleset", "spectral.yaml",
		"--fail-severity", "warn", "openapi.json", "openapi.yaml", "admin-openapi.json", "admin-openapi.yaml")
}

// The documented client compiles strictly and makes calls.
func TestOpenAPIMakesATypeScriptClient(t *testing.T) {
	t.Parallel()
	_, greeting := startDemo(t)
	public, _ := addresses(greeting)
	dir := beside(t)
	tells(t, dir, installed(t, "node", "node_modules", ".bin", "openapi-typescript"),
		"http://"+public+"/openapi.json", "--output", "capgate.d.ts")
	client := snippet(t, "ts", public)
	put(t, dir, "client.ts", client)
	// Arguments are the tool's own.
	put(t, dir, "wrong.ts", "export {};\n"+
		strings.Replace(client, "  body: {", "  // @ts-expect-error\n  body: { place: 1,", 1))
	tells(t, dir, installed(t, "node", "node_modules", ".bin", "tsc"), "--strict", "--target", "es2022", "--module",
		"nodenext",
		"--noUncheckedIndexedAccess", "--skipDefaultLibCheck", "client.ts", "wrong.ts")
	if out := tells(t, dir, "node", "client.js"); !strings.Contains(out, "location: 'Berlin'") {
		t.Errorf("got %s", out)
	}
}

func TestPythonOfTheDocumentation(t *testing.T) {
	t.Parallel()
	_, greeting := startDemo(t)
	public, _ := addresses(greeting)
	if out := tells(t, t.TempDir(), installed(t, "venv", "bin", "python"), "-c",
		snippet(t, "python", public)); !strings.Contains(out, "'location': 'Berlin'") {
		t.Errorf("got %s", out)
	}
}
