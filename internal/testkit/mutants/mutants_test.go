package main

import (
	"errors"
	"go/ast"
	"go/importer"
	"go/parser"
	"go/token"
	"go/types"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// root is the folder of the module.
const root = "../../.."

// TestMutantsApply: the text of each mutant still exists, the result compiles, and the tests that should detect it
// exist.
func TestMutantsApply(t *testing.T) {
	t.Parallel()
	all, err := load(root)
	if err != nil {
		t.Fatal(err)
	}
	if len(all) == 0 {
		t.Error("no mutants were found")
	}
	c, names := newCompiler(t, all), map[string][]string{}
	for i := range all {
		m := &all[i]
		file, text, err := m.apply()
		if err == nil && !m.lua() {
			err = c.check(m.dir, file, text)
		}
		if err != nil {
			t.Errorf("%s: %s: %v", m.dir, m.Intent, err)
		}
		for _, arguments := range m.Tests {
			for _, missing := range missingTests(t, names, m.dir, arguments) {
				t.Errorf("%s: %s: no test of %q is named %s", m.dir, m.Intent, arguments, missing)
			}
		}
	}
}

// compiler type-checks packages with one file replaced.
type compiler struct {
	set      *token.FileSet
	files    map[string]*ast.File // as on disk
	outlines map[string]*ast.File // the same without the bodies of functions
	packages map[string][]string  // the files of a folder
	config   types.Config
}

// newCompiler returns the compiler for the packages of mutants.
func newCompiler(t *testing.T, all []mutant) *compiler {
	t.Helper()
	c := &compiler{set: token.NewFileSet(), files: map[string]*ast.File{}, outlines: map[string]*ast.File{},
		packages: map[string][]string{}}
	arguments := []string{"list", "-export", "-deps",
		"-f", "{{.ImportPath}}\t{{.Export}}\t{{.Dir}}\t{{join .GoFiles \" \"}}"}
	for i := range all {
		if i == 0 || all[i].dir != all[i-1].dir {
			arguments = append(arguments, all[i].dir)
		}
	}
	out, err := exec.CommandContext(t.Context(), "go", arguments...).Output()
	if err != nil {
		t.Fatalf("go list: %v", err)
	}
	exports := map[string]string{}
	for line := range strings.Lines(string(out)) {
		part := strings.Split(strings.TrimSuffix(line, "\n"), "\t")
		exports[part[0]] = part[1]
		for name := range strings.FieldsSeq(part[3]) {
			c.packages[part[2]] = append(c.packages[part[2]], filepath.Join(part[2], name))
		}
	}
	c.config.Importer = importer.ForCompiler(c.set, "gc", func(path string) (io.ReadCloser, error) {
		return os.Open(exports[path])
	})
	return c
}

// check returns the first error of a folder's package with text in place of a file. A change in the body of a function
// has its errors in the same file, so that the bodies of the others are not checked, which is most of the work.
func (c *compiler) check(dir, file string, text []byte) error {
	dir, err := filepath.Abs(dir)
	if err != nil {
		return err
	}
	if file, err = filepath.Abs(file); err != nil {
		return err
	}
	inside, err := c.inBody(file, text)
	if err != nil {
		return err
	}
	var all []*ast.File
	for _, name := range c.packages[dir] {
		source, err := c.parse(name, inside)
		if name == file {
			source, err = parser.ParseFile(c.set, name, text, parser.SkipObjectResolution)
		}
		if err != nil {
			return err
		}
		all = append(all, source)
	}
	var first error
	config := c.config
	config.Error = func(err error) {
		var at types.Error
		elsewhere := errors.As(err, &at) && c.set.Position(at.Pos).Filename != file // such as an import without uses
		if first == nil && !(inside && elsewhere) {
			first = err
		}
	}
	_, _ = config.Check(dir, c.set, all, nil) // Error has all errors
	return first
}

// inBody reports whether the first change of a file is in the body of a function.
func (c *compiler) inBody(file string, text []byte) (bool, error) {
	source, err := os.ReadFile(file)
	if err != nil {
		return false, err
	}
	at := 0
	for at < min(len(source), len(text)) && source[at] == text[at] {
		at++
	}
	parsed, err := c.parse(file, false)
	if err != nil {
		return false, err
	}
	return slices.ContainsFunc(parsed.Decls, func(d ast.Decl) bool {
		f, ok := d.(*ast.FuncDecl)
		return ok && f.Body != nil && c.set.Position(f.Body.Lbrace).Offset < at &&
			at <= c.set.Position(f.Body.Rbrace).Offset
	}), nil
}

// parse returns a file of the disk; outline leaves out the bodies of its functions.
func (c *compiler) parse(name string, outline bool) (*ast.File, error) {
	from := c.files
	if outline {
		from = c.outlines
	}
	if source := from[name]; source != nil {
		return source, nil
	}
	source, err := parser.ParseFile(c.set, name, nil, parser.SkipObjectResolution)
	if err != nil {
		return nil, err
	}
	for _, d := range source.Decls {
		if f, ok := d.(*ast.FuncDecl); ok && outline {
			f.Body = nil
		}
	}
	from[name] = source
	return source, nil
}

// TestCompiler: a change does not compile if its function or another file does not, or if an import is without uses.
func TestCompiler(t *testing.T) {
	t.Parallel()
	const text = "package m\n\nimport \"unsafe\"\n\nfunc size(int) int { return int(unsafe.Sizeof(0)) }\n"
	dir := t.TempDir()
	file, other := filepath.Join(dir, "m.go"), filepath.Join(dir, "other.go")
	for name, text := range map[string]string{file: text, other: "package m\n\nimport \"unsafe\"\n\n" +
		"func sizes() uintptr { return uintptr(size(1)) + unsafe.Sizeof(0) }\n"} {
		if err := os.WriteFile(name, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	c := &compiler{set: token.NewFileSet(), files: map[string]*ast.File{}, outlines: map[string]*ast.File{},
		packages: map[string][]string{dir: {file, other}}, config: types.Config{Importer: importer.Default()}}
	for _, test := range []struct {
		from, to string
		compiles bool
	}{
		{"int(unsafe.Sizeof(0))", "-int(unsafe.Sizeof(0))", true},
		{"Sizeof(0)", "Sizeof(missing)", false},
		{"int(unsafe.Sizeof(0))", "0", false},
		{"size(int)", "size(string)", false},
	} {
		err := c.check(dir, file, []byte(strings.Replace(text, test.from, test.to, 1)))
		if (err == nil) != test.compiles {
			t.Errorf("%q in place of %q: %v", test.to, test.from, err)
		}
	}
}

// missingTests returns the test names in the arguments of a test run that do not exist.
func missingTests(t *testing.T, names map[string][]string, dir, arguments string) (missing []string) {
	t.Helper()
	run, place := "", "."
	for i, all := 0, strings.Fields(arguments); i < len(all); i++ {
		if all[i] == "-run" {
			i++
			run, _, _ = strings.Cut(all[i], "/") // subtests are named by their cases
		} else {
			place = all[i]
		}
	}
	place = filepath.Join(dir, place)
	if names[place] == nil {
		names[place] = testNames(t, place)
	}
	run = strings.TrimSuffix(strings.TrimPrefix(run, "^"), "$")
	if inner, ok := strings.CutPrefix(run, "("); ok {
		run = strings.TrimSuffix(inner, ")")
	}
	for _, one := range strings.Split(run, "|") {
		pattern, err := regexp.Compile(one)
		if err != nil || !slices.ContainsFunc(names[place], pattern.MatchString) {
			missing = append(missing, one)
		}
	}
	return missing
}

// testNames returns the names of a folder's tests.
func testNames(t *testing.T, dir string) (names []string) {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(dir, "*_test.go"))
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range files {
		file, err := parser.ParseFile(token.NewFileSet(), name, nil, parser.SkipObjectResolution)
		if err != nil {
			t.Fatal(err)
		}
		for _, decl := range file.Decls {
			if f, ok := decl.(*ast.FuncDecl); ok && strings.HasPrefix(f.Name.Name, "Test") {
				names = append(names, f.Name.Name)
			}
		}
	}
	return names
}

// TestAMutant: a mutant is detected by a test that checks the decision, and survives one that does not. A test that
// fails anyway detects nothing.
func TestAMutant(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	for name, text := range map[string]string{
		"go.mod": "module example.test/m\n\ngo 1.24\n",
		"m.go": "package m\n\nimport _ \"embed\"\n\n//go:embed m.lua\nvar Lua string\n\ntype T struct{}\n\n" +
			"func (*T) Most(a, b int) int { return max(a, b) }\n",
		"m.lua": "return 1\n",
		"m_test.go": "package m\n\nimport \"testing\"\n\nfunc TestMost(t *testing.T) {\n\tif new(T).Most(1, 2) != 2 " +
			"{\n\t\tt.Fatal()\n\t}\n}\n\n" +
			"func TestLua(t *testing.T) {\n\tif Lua != \"return 1\\n\" {\n\t\tt.Fatal()\n\t}\n}\n\n" +
			"func TestBlind(*testing.T) {}\n\nfunc TestBroken(t *testing.T) { t.Fatal() " +
			"}\n",
		list: `
- {intent: the least is taken, func: (T).Most, old: max, new: min, tests: [-run Most]}
- {intent: nobody looks, func: (T).Most, old: max, new: min, tests: [-run Blind]}
- {intent: it does not compile, func: (T).Most, old: max, new: most}
- {intent: its test fails anyway, func: (T).Most, old: max, new: min, tests: [-run Broken]}
- {intent: a program in Lua returns another value, file: m.lua, old: return 1, new: return 2, tests: [-run Lua]}
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
	if err != nil || len(all) != 5 {
		t.Fatalf("%+v, %v", all, err)
	}
	for i, want := range []struct {
		killed bool
		err    string
	}{{true, ""}, {false, ""}, {false, "does not compile"}, {true, "fails without the mutant"}, {true, ""}} {
		killed, err := all[i].try(t.Context(), 0, baseline{})
		if killed != want.killed || (err == nil) != (want.err == "") ||
			err != nil && !strings.Contains(err.Error(), want.err) {
			t.Errorf("%s: %t, %v", all[i].Intent, killed, err)
		}
	}
}

// TestAMutantThatDoesNotApply: a text that occurs twice or never, and a missing function, are errors.
func TestAMutantThatDoesNotApply(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	for name, text := range map[string]string{"m.go": "package m\n\nfunc F() int { return 1 + 1 }\n",
		"m.lua": "return 1 + 1\n"} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	for name, m := range map[string]mutant{
		"twice":          {Func: "F", Old: "1", New: "2"},
		"never":          {Func: "F", Old: "3", New: "2"},
		"no function":    {Func: "G", Old: "1 +", New: "2 +"},
		"not Go":         {Func: "F", Old: "1 + 1", New: "1 +"},
		"no such method": {Func: "(F).F", Old: "1 + 1", New: "2"},
		"twice in Lua":   {File: "m.lua", Old: "1", New: "2"},
		"not Lua":        {File: "m.lua", Old: "1 + 1", New: "1 +"},
	} {
		m.dir = dir
		if file, _, err := m.apply(); err == nil {
			t.Errorf("%s: applied to %s", name, file)
		}
	}
}
