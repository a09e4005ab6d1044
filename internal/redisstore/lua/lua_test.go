package lua

import (
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"testing/fstest"

	"github.com/capgate/capgate/internal/testkit/check"
	"github.com/capgate/capgate/internal/testkit/redistest"
)

// TestIncludes: a program gets each include once and in one line, so that its own lines keep their numbers.
func TestIncludes(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		program string
		want    string
		err     string
	}{
		"none":    {program: "return 1\n", want: "return 1\n"},
		"one":     {program: "-- One.\n-- include one\nreturn one\n", want: "\nlocal one = 1\nreturn one\n"},
		"nested":  {program: "-- include two\nreturn two\n", want: "local one = 1 local two =   2 * one\nreturn two\n"},
		"twice":   {program: "-- include two\n-- include one\n", want: "local one = 1 local two =   2 * one\n\n"},
		"unknown": {program: "-- include three\n", err: "lua/program.lua: open include/three.lua: file does not exist"},
		"itself":  {program: "-- include itself\n", err: "lua/program.lua: include itself includes itself"},
		"circle":  {program: "-- include here\n", err: "lua/program.lua: include here includes itself"},
		"comment": {program: "-- include comment\n",
			err: "lua/program.lua: include comment: a comment must have a line of its own"},
	} {
		got, err := source(fstest.MapFS{
			"program.lua":         {Data: []byte(c.program)},
			"include/one.lua":     {Data: []byte("-- The first.\n\nlocal one = 1\n")},
			"include/two.lua":     {Data: []byte("-- include one\nlocal two =\n  2 * one\n")},
			"include/itself.lua":  {Data: []byte("-- include itself\n")},
			"include/here.lua":    {Data: []byte("-- include there\n")},
			"include/there.lua":   {Data: []byte("-- include here\n")},
			"include/comment.lua": {Data: []byte("local a -- is one\n")},
		}, "program")
		if err == nil && got != c.want || err == nil != (c.err == "") || err != nil && err.Error() != c.err {
			t.Errorf("%s: %q, %v", name, got, err)
		}
	}
}

// names returns the names of all files of a folder.
func names(t *testing.T, folder string) (all []string) {
	t.Helper()
	paths, err := filepath.Glob(filepath.Join(folder, "*.lua"))
	check.Must(t, err)
	if len(paths) == 0 {
		t.Fatalf("%s has no programs", folder)
	}
	for _, path := range paths {
		all = append(all, strings.TrimSuffix(path, ".lua"))
	}
	return all
}

// words returns what matches the first group of pattern in all files of a glob.
func words(t *testing.T, glob, pattern string) map[string]bool {
	t.Helper()
	paths, err := filepath.Glob(glob)
	check.Must(t, err)
	found := map[string]bool{}
	for _, path := range paths {
		text, err := os.ReadFile(path)
		check.Must(t, err)
		for _, m := range regexp.MustCompile(pattern).FindAllStringSubmatch(string(text), -1) {
			found[m[1]] = true
		}
	}
	return found
}

// TestEveryProgramCompiles in a real Redis, and is used.
func TestEveryProgramCompiles(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	used := words(t, "../*.go", `newScript\("(\w+)"\)`)
	for _, name := range names(t, ".") {
		text, err := Source(name)
		check.Must(t, err)
		server.Do("SCRIPT", "LOAD", text)
		if !used[name] {
			t.Errorf("%s.lua: no Go code uses it", name)
		}
	}
	included := words(t, "*.lua", `(?m)^-- include (\w+)`)
	for name := range words(t, "include/*.lua", `(?m)^-- include (\w+)`) {
		included[name] = true
	}
	for _, name := range names(t, "include") {
		if !included[filepath.Base(name)] {
			t.Errorf("%s.lua: no program includes it", name)
		}
	}
}

// TestLuacheck finds names that are not declared or not used, in each program with its includes.
func TestLuacheck(t *testing.T) {
	t.Parallel()
	if _, err := exec.LookPath("luacheck"); err != nil {
		if os.Getenv("CI") == "true" { //nolint:forbidigo // CI must not skip it
			t.Fatal("no luacheck: tools/setup installs it")
		}
		t.Skip("no luacheck: make setup installs it where it can")
	}
	dir := t.TempDir()
	check.Must(t, os.CopyFS(dir, os.DirFS(".")))
	for _, name := range append(names(t, "."), names(t, "include")...) {
		text, err := Source(name)
		check.Must(t, err)
		own, err := os.ReadFile(name + ".lua")
		check.Must(t, err)
		lines, included := strings.Split(string(own), "\n"), strings.Split(text, "\n")
		for i, line := range lines {
			if strings.HasPrefix(line, "-- include ") {
				lines[i] = included[i] + " -- luacheck: ignore"
			}
		}
		check.Must(t, os.WriteFile(filepath.Join(dir, name+".lua"), []byte(strings.Join(lines, "\n")), 0o600))
	}
	luacheck := exec.CommandContext(t.Context(), "luacheck", "--no-color", "--quiet", ".")
	luacheck.Dir = dir
	if out, err := luacheck.CombinedOutput(); err != nil {
		t.Errorf("%v:\n%s", err, out)
	}
}
