package cli

import (
	"encoding/json"
	"path/filepath"
	"strings"
	"testing"

	"go.yaml.in/yaml/v4"
)

// TestChangesForPrograms: commands that change something can print the object of the API.
func TestChangesForPrograms(t *testing.T) {
	t.Parallel()
	w := startTenants(t)
	object := func(want string, words ...string) map[string]any {
		t.Helper()
		var got map[string]any
		if text := w.run(t, 0, append(words, "-o", "json")...); json.Unmarshal([]byte(text), &got) != nil {
			t.Fatalf("%v: %s", words, text)
		} else if !strings.Contains(text, want) {
			t.Errorf("%v: %s", words, text)
		}
		return got
	}
	made := object(`"credential": "cg_`, "keys", "create", "globex")
	id := made["key"].(map[string]any)["id"].(string)
	made = object(`"credential": "cg_`, "keys", "rotate", "globex", id)
	next := made["key"].(map[string]any)["id"].(string)
	if next == id || next == "" {
		t.Errorf("rotated %s to %q", id, next)
	}
	object(next, "keys", "revoke", "globex", next)
	file := filepath.Join(t.TempDir(), "key")
	if kept := object(`"id"`, "keys", "create", "globex", "--out", file); kept["credential"] != nil ||
		kept["id"] == nil {
		t.Errorf("beside a file: %v", kept)
	}
	w.run(t, 0, "policy", "set", "caps", "echo", "block", "--tenant", "globex")
	if rule := object(`"caps"`, "policy", "rm", "caps", "echo", "--tenant", "globex"); rule["tool"] != "echo" {
		t.Errorf("the rule: %v", rule)
	}
	if gone := object(`"globex"`, "tenants", "rm", "globex", "--force"); gone["id"] != "globex" {
		t.Errorf("the tenant: %v", gone)
	}
}

// TestDrainsForPrograms: each step of a drain is an object.
func TestDrainsForPrograms(t *testing.T) {
	t.Parallel()
	r := newReplicas(t)
	p, _, admin := serve(t, nil, "--config", r.file)
	lines := strings.Split(strings.TrimSpace(drain(t, admin, r.two, "-o", "json")), "\n")
	for _, line := range lines {
		var state struct{ Drains []any }
		if err := json.Unmarshal([]byte(line), &state); err != nil || len(state.Drains) != 1 {
			t.Errorf("%s: %v; state %+v", line, err, state)
		}
	}
	if len(lines) < 2 {
		t.Errorf("got %q", lines)
	}
	var state map[string]any
	if err := yaml.Unmarshal([]byte(undrain(t, admin, r.two, "-o", "yaml")), &state); err != nil ||
		state["drains"] == nil {
		t.Errorf("got %v, %v", state, err)
	}
	p.stop(t)
}
