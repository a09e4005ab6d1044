package main

import (
	"os"
	"regexp"
	"strings"
	"testing"
)

// TestChecksFitTheModels: every check has a model with its constants and invariants, and every invariant has a check in
// which it breaks.
func TestChecksFitTheModels(t *testing.T) {
	t.Parallel()
	all, err := load(".")
	if err != nil {
		t.Fatal(err)
	}
	broken := map[string]bool{}
	for i := range all {
		c := &all[i]
		broken[c.Model+" "+c.Breaks] = true
		cfg := read(t, c.Model+".cfg")
		if _, err := c.configure(cfg); err != nil {
			t.Errorf("%s: %v", c.Says, err)
		}
		if c.Breaks != "" && !strings.Contains(read(t, c.Model+".tla"), "\n"+c.Breaks+" == ") {
			t.Errorf("%s: %s.tla does not define %s", c.Says, c.Model, c.Breaks)
		}
	}
	for i := range all {
		model := all[i].Model
		invariants := regexp.MustCompile(`(?m)^INVARIANTS (.*)$`).FindStringSubmatch(read(t, model+".cfg"))
		if invariants == nil {
			t.Fatalf("%s.cfg has no invariants", model)
		}
		for _, name := range strings.Fields(invariants[1]) {
			if !broken[model+" "+name] {
				t.Errorf("no check breaks %s of %s", name, model)
			}
		}
	}
}

// TestJudge: only the expected result of TLC passes a check.
func TestJudge(t *testing.T) {
	t.Parallel()
	const holds, breaks = "Model checking completed. No error has been found.", "Invariant Once is violated."
	for _, c := range []struct {
		name   string
		breaks string
		out    string
		ok     bool
	}{
		{"it holds", "", holds, true},
		{"it should hold", "", breaks, false},
		{"no result", "", "", false},
		{"no violation", "Once", holds, false},
		{"another violation", "InTime", breaks, false},
		{"a violation, but TLC did not say so by its exit", "Once", breaks, false},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			some := check{Breaks: c.breaks}
			if err := some.judge(c.out, nil); (err == nil) != c.ok {
				t.Errorf("the result is %v", err)
			}
		})
	}
}

func read(t *testing.T, name string) string {
	t.Helper()
	text, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}
