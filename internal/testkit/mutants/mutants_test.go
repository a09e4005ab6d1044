package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// TestMutantsApply: the text of each mutant is still there, and the result is Go.
func TestMutantsApply(t *testing.T) {
	t.Parallel()
	all, err := load("../../..")
	if err != nil {
		t.Fatal(err)
	}
	if len(all) == 0 {
		t.Error("no mutants were found")
	}
	for i := range all {
		if _, _, err := all[i].apply(); err != nil {
			t.Error(err)
		}
	}
}

// TestAMutant: a mutant is noticed by a test that looks, and survives one that does not.
// A test that fails anyway notices nothing.
func TestAMutant(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	for name, text := range map[string]string{
		"go.mod": "module example.test/m\n\ngo 1.24\n",
		"m.go":   "package m\n\ntype T struct{}\n\nfunc (*T) Most(a, b int) int { return max(a, b) }\n",
		"m_test.go": "package m\n\nimport \"testing\"\n\nfunc TestMost(t *testing.T) {\n\tif new(T).Most(1, 2) != 2 {\n\t\tt.Fatal()\n\t}\n}\n\nfunc TestBlind(*testing.T) {}\n\n" +
			"func TestBroken(t *testing.T) { t.Fatal() }\n",
		list: `
- {intent: the least is taken, func: (T).Most, old: max, new: min, tests: [-run Most]}
- {intent: nobody looks, func: (T).Most, old: max, new: min, tests: [-run Blind]}
- {intent: it does not compile, func: (T).Most, old: max, new: most}
- {intent: its test fails anyway, func: (T).Most, old: max, new: min, tests: [-run Broken]}
`,
	} {
		if err := os.MkdirAll(filepath.Dir(filepath.Join(dir, name)), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	all, err := load(dir)
	if err != nil || len(all) != 4 {
		t.Fatalf("%+v, %v", all, err)
	}
	for i, want := range []struct {
		killed bool
		err    string
	}{{true, ""}, {false, ""}, {false, "does not compile"}, {true, "fails without the mutant"}} {
		killed, err := all[i].try(t.Context(), 0, baseline{})
		if killed != want.killed || (err == nil) != (want.err == "") || err != nil && !strings.Contains(err.Error(), want.err) {
			t.Errorf("%s: %t, %v", all[i].Intent, killed, err)
		}
	}
}

// TestAMutantThatDoesNotApply: a text that occurs twice or never, and a function that is not there, are errors.
func TestAMutantThatDoesNotApply(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	source := "package m\n\nfunc F() int { return 1 + 1 }\n"
	if err := os.WriteFile(filepath.Join(dir, "m.go"), []byte(source), 0o600); err != nil {
		t.Fatal(err)
	}
	for name, m := range map[string]mutant{
		"twice":          {Func: "F", Old: "1", New: "2"},
		"never":          {Func: "F", Old: "3", New: "2"},
		"no function":    {Func: "G", Old: "1 +", New: "2 +"},
		"not Go":         {Func: "F", Old: "1 + 1", New: "1 +"},
		"no such method": {Func: "(F).F", Old: "1 + 1", New: "2"},
	} {
		m.dir = dir
		if file, _, err := m.apply(); err == nil {
			t.Errorf("%s: applied to %s", name, file)
		}
	}
}
