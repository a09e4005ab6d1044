package app

import (
	"bytes"
	"fmt"
	"log/slog"
	"strings"
	"testing"

	"github.com/capgate/capgate/internal/config"
	"github.com/capgate/capgate/internal/manifest"
	"github.com/capgate/capgate/internal/testkit/check"
	"github.com/capgate/capgate/internal/toolschema"
	"github.com/capgate/capgate/internal/toolset"
	"github.com/capgate/capgate/policy/catalog"
)

// toolsetRig checks toolsets against a catalog, and returns the lines that it logs.
type toolsetRig struct {
	*toolsetChecks
	t   *testing.T
	log bytes.Buffer
}

func newToolsetRig(t *testing.T) *toolsetRig {
	t.Helper()
	r := &toolsetRig{t: t}
	r.toolsetChecks = &toolsetChecks{catalog: catalog.New(catalog.Options{}), wake: make(chan struct{}, 1),
		log: slog.New(slog.NewTextHandler(&r.log, nil))}
	return r
}

// logs checks once, and checks the problems in the log.
func (r *toolsetRig) logs(when string, want ...string) {
	r.t.Helper()
	r.log.Reset()
	r.check(r.t.Context())
	lines := strings.Split(strings.TrimSpace(r.log.String()), "\n")
	if len(want) == 0 && lines[0] == "" {
		return
	}
	for i, line := range lines {
		if i >= len(want) || !strings.Contains(line, want[i]) || len(lines) != len(want) {
			r.t.Fatalf("%s: %d lines: %s\nwant %q", when, len(lines), line, want)
		}
	}
}

// declared declares the tool get of the capability one; dynamic: a server lists its tools, and has not yet.
func declared(t *testing.T, description string, dynamic bool) map[string]catalog.Declaration {
	t.Helper()
	schema, err := toolschema.Compile([]byte(`{"type":"object","properties":{"city":{"type":"string"}}}`))
	check.Must(t, err)
	m := &manifest.Manifest{Tools: []manifest.Tool{{Name: "get", Description: description, Schema: schema}}}
	if dynamic {
		m = &manifest.Manifest{Dynamic: true, Features: true}
	}
	return map[string]catalog.Declaration{"one": {Manifest: m}}
}

// TestToolsetEntriesAreChecked: each problem of an entry is logged once while it lasts, as soon as the tools are known,
// and again after it was solved.
func TestToolsetEntriesAreChecked(t *testing.T) {
	t.Parallel()
	arguments, err := toolset.ParseArguments([]byte(`{"city":1}`))
	check.Must(t, err)
	entry := func(tool string) *toolset.Entry { return &toolset.Entry{Capability: "one", Tool: tool} }
	put, pattern, prompt := entry("put"), entry("p*"), entry("prompts/x")
	hashed, fixed := entry("get"), entry("get")
	hashed.Hash, fixed.Arguments = toolschema.Hash{1}, arguments
	of := func(entries ...*toolset.Entry) *config.Config {
		c := &config.Config{}
		for _, e := range entries {
			c.Toolsets = append(c.Toolsets, toolset.Toolset{Name: "s", Tools: []toolset.Entry{*e}})
		}
		return c
	}
	r := newToolsetRig(t)
	r.change(of(put, pattern, prompt, hashed, fixed), declared(t, "d", true))
	r.logs("before the discovery")
	r.change(of(put, pattern, hashed, fixed), declared(t, "d", false))
	if len(r.wake) != 1 {
		t.Error("a change does not wake the check")
	}
	wrongHash := func() string {
		tool, _ := r.catalog.Describe("one", "get")
		return "the hash of get has changed, so its calls need approval; it is now " + tool.Hash.String()
	}
	r.logs("known tools", "no tool of one matches put", "no tool of one matches p*",
		wrongHash(), `got number, want string`)
	r.logs("again")
	r.change(of(fixed, hashed, pattern, put), declared(t, "d", false))
	r.logs("a reload with another order")
	r.change(of(fixed, hashed, pattern, put), declared(t, "e", false))
	r.logs("another version", wrongHash())
	r.change(of(hashed), declared(t, "e", false))
	r.logs("solved")
	r.change(of(hashed, put), declared(t, "e", false))
	r.logs("not solved", "no tool of one matches put")
}

// TestToolsetProblemsHaveABound: one check logs a bounded number of problems.
func TestToolsetProblemsHaveABound(t *testing.T) {
	t.Parallel()
	r, c := newToolsetRig(t), &config.Config{}
	for i := range 2 * maxEntryProblems {
		c.Toolsets = append(c.Toolsets, toolset.Toolset{Name: "s", Tools: []toolset.Entry{
			{Capability: "one", Tool: fmt.Sprintf("t%d", i)}}})
	}
	r.change(c, declared(t, "d", false))
	r.check(t.Context())
	text := r.log.String()
	if n := strings.Count(text, "\n"); n != maxEntryProblems+1 || !strings.Contains(text, "are not checked") {
		t.Errorf("%d lines: %.200s", n, text)
	}
	r.logs("again")
}
