package main

import (
	"bytes"
	"go/ast"
	"go/parser"
	"go/token"
	"io"
	"log"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/google/pprof/profile"
)

// TestReleasesUseTheProfile: a release builds capgate with the committed profile unless -pgo is set, and
// capgate-forward without a profile.
func TestReleasesUseTheProfile(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		program string
		args    []string
		want    string
	}{
		{"capgate", nil, "-pgo=/source/tools/release/capgate.pgo"},
		{"capgate", []string{"-pgo", "off"}, "-pgo=off"},
		{"capgate-forward", nil, "-pgo=off"},
	} {
		r := &release{log: log.New(io.Discard, "", 0)}
		must(t, r.parse(append(test.args, "-version", testVersion, "-out", "x", "-source", "/source")))
		if got := r.buildArgs(test.program, "to"); !slices.Contains(got, test.want) {
			t.Errorf("%s, %v: %v has no %s", test.program, test.args, got, test.want)
		}
	}
}

// TestTheProfileIsOfThisProgram: the committed profile is small, contains neither paths nor addresses, and most of its
// functions of the module exist. `make profile` records a new one.
func TestTheProfileIsOfThisProgram(t *testing.T) {
	t.Parallel()
	file := filepath.Join("../..", profileFile)
	p, err := readProfile(file)
	must(t, err)
	if info, err := os.Stat(file); err != nil || info.Size() > maxProfile {
		t.Errorf("%v, %v: more than %d bytes", info, err, maxProfile)
	}
	for _, m := range p.Mapping {
		if m.File != "" || m.BuildID != "" {
			t.Errorf("the profile has the file %q with the build ID %q", m.File, m.BuildID)
		}
	}
	own, missing := 0, []string{} // functions of the module
	packages := map[string]map[string]bool{}
	for _, f := range p.Function {
		if f.Filename != "" || strings.HasPrefix(f.Name, "/") {
			t.Errorf("%s has the path %q", f.Name, f.Filename)
		}
		dir, name, ok := inModule(f.Name)
		if !ok {
			continue
		}
		if packages[dir] == nil {
			packages[dir] = functions(t, dir)
		}
		own++
		if !packages[dir][name] {
			missing = append(missing, f.Name)
		}
	}
	if own < 100 || 2*len(missing) > own {
		t.Errorf("the profile is stale: of %d functions of the module, %d are missing; run make profile: %q", own,
			len(missing), missing)
	}
}

// inModule returns the directory of a function's package and the function's name in it. For a closure, it is the
// enclosing function.
func inModule(symbol string) (dir, name string, ok bool) {
	path, ok := strings.CutPrefix(regexp.MustCompile(`\[.*\]`).ReplaceAllString(symbol, ""), module+"/")
	if !ok {
		return "", "", false
	}
	slash := strings.LastIndex(path, "/")
	dot := strings.Index(path[slash+1:], ".") + slash + 1
	return path[:dot], regexp.MustCompile(`(\.func\d|\.gowrap\d|-fm|-range\d|\.deferwrap\d).*`).
		ReplaceAllString(path[dot+1:], ""), true
}

// functions returns the names of the functions and methods of a package of the repository, as a profile has them.
func functions(t *testing.T, dir string) map[string]bool {
	t.Helper()
	names := map[string]bool{}
	files, err := filepath.Glob(filepath.Join("../..", dir, "*.go"))
	must(t, err)
	for _, file := range files {
		f, err := parser.ParseFile(token.NewFileSet(), file, nil, parser.SkipObjectResolution)
		must(t, err)
		for _, d := range f.Decls {
			if fn, ok := d.(*ast.FuncDecl); ok {
				names[symbolOf(fn)] = true
			}
		}
	}
	return names
}

// symbolOf returns the name of a function in its package, as a profile has it.
func symbolOf(fn *ast.FuncDecl) string {
	if fn.Recv == nil {
		return fn.Name.Name
	}
	of, pointer := fn.Recv.List[0].Type, false
	if star, ok := of.(*ast.StarExpr); ok {
		of, pointer = star.X, true
	}
	switch generic := of.(type) {
	case *ast.IndexExpr:
		of = generic.X
	case *ast.IndexListExpr:
		of = generic.X
	}
	name := of.(*ast.Ident).Name
	if pointer {
		name = "(*" + name + ")"
	}
	return name + "." + fn.Name.Name
}

// TestMergedProfilesAreBare: merged profiles contain the samples of all profiles, and no data about the machine.
func TestMergedProfilesAreBare(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	from, to := filepath.Join(dir, "from"), filepath.Join(dir, "to")
	f := &profile.Function{ID: 1, Name: "main.run", SystemName: "main.run", Filename: "/home/me/run.go", StartLine: 3}
	m := &profile.Mapping{ID: 1, Start: 1, Limit: 9, File: "/home/me/capgate", BuildID: "b"}
	at := &profile.Location{ID: 1, Mapping: m, Address: 5, Line: []profile.Line{{Function: f, Line: 4}}}
	p := &profile.Profile{TimeNanos: 7, SampleType: []*profile.ValueType{{Type: "samples", Unit: "count"}},
		Sample: []*profile.Sample{{Location: []*profile.Location{at}, Value: []int64{2},
			Label: map[string][]string{"tenant": {"acme"}}}},
		Mapping: []*profile.Mapping{m}, Location: []*profile.Location{at}, Function: []*profile.Function{f}}
	var content bytes.Buffer
	must(t, p.Write(&content))
	must(t, os.WriteFile(from, content.Bytes(), 0o600))
	must(t, mergeProfiles(t.Context(), []string{to, from, from}, new(bytes.Buffer)))
	got, err := readProfile(to)
	must(t, err)
	if len(got.Sample) != 1 || got.Sample[0].Value[0] != 4 || got.Function[0].Name != "main.run" ||
		got.Function[0].StartLine != 3 || got.Sample[0].Location[0].Line[0].Line != 4 {
		t.Errorf("the merged profile lacks samples:\n%s", got)
	}
	if text := got.String(); strings.Contains(text, "/home") || strings.Contains(text, "acme") ||
		got.Sample[0].Location[0].Address != 0 || got.TimeNanos != 0 {
		t.Errorf("the merged profile has data other than functions and lines:\n%s", text)
	}
}
