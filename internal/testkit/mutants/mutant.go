package main

import (
	"bytes"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/yuin/gopher-lua/parse"
	"go.yaml.in/yaml/v4"
)

// list is the path of the mutants of a package, relative to it.
const list = "testdata/mutants.yaml"

// mutant is a broken decision.
type mutant struct {
	Intent   string   `yaml:"intent"`
	Func     string   `yaml:"func"`
	File     string   `yaml:"file"`
	Old      string   `yaml:"old"`
	New      string   `yaml:"new"`
	Tests    []string `yaml:"tests"`
	Survives string   `yaml:"survives"`

	dir string // of the package
}

// load reads the mutants of all packages below root.
func load(root string) ([]mutant, error) {
	var all []mutant
	seen := map[string]string{}
	err := filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case d.IsDir() && (d.Name() == "node_modules" || d.Name() == ".git" || path == filepath.Join(root, "bin")):
			return fs.SkipDir
		case d.IsDir() || !strings.HasSuffix(filepath.ToSlash(path), "/"+list):
			return nil
		}
		some, err := loadFile(path)
		for _, m := range some {
			if other, twice := seen[m.Intent]; twice {
				return fmt.Errorf("%s: %q occurs in %s as well", path, m.Intent, other)
			}
			seen[m.Intent] = path
		}
		all = append(all, some...)
		return err
	})
	return all, err
}

func loadFile(path string) ([]mutant, error) {
	text, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	var some []mutant
	d := yaml.NewDecoder(bytes.NewReader(text))
	d.KnownFields(true)
	if err := d.Decode(&some); err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	dir := filepath.Dir(filepath.Dir(path))
	for i := range some {
		m := &some[i]
		if m.Intent == "" || (m.Func == "") != m.lua() || m.Old == m.New {
			return nil, fmt.Errorf("%s: a mutant has an intent, a func or a file of Lua, and a new text that is not "+
				"the old one: %+v", path, *m)
		}
		if m.dir = dir; len(m.Tests) == 0 {
			m.Tests = []string{"."}
		}
	}
	return some, nil
}

// lua reports whether the mutant changes a program in Lua.
func (m *mutant) lua() bool { return filepath.Ext(m.File) == ".lua" }

// apply returns the changed file and its new text.
func (m *mutant) apply() (file string, text []byte, err error) {
	if m.lua() {
		return m.applyLua()
	}
	files := []string{filepath.Join(m.dir, m.File)}
	if m.File == "" {
		if files, err = filepath.Glob(filepath.Join(m.dir, "*.go")); err != nil {
			return "", nil, err
		}
	}
	for _, name := range files {
		if strings.HasSuffix(name, "_test.go") {
			continue
		}
		source, err := os.ReadFile(name)
		if err != nil {
			return "", nil, err
		}
		from, to, err := find(source, m.Func)
		if err != nil {
			return "", nil, err
		}
		if to == 0 {
			continue
		}
		if file != "" {
			return "", nil, fmt.Errorf("%s and %s have a %s: the mutant needs a file", file, name, m.Func)
		}
		changed, err := m.change(source[from:to], name+": "+m.Func)
		if err != nil {
			return "", nil, err
		}
		file, text = name, bytes.Join([][]byte{source[:from], changed, source[to:]}, nil)
	}
	if file == "" {
		return "", nil, fmt.Errorf("%s: no file has a %s", m.dir, m.Func)
	}
	if _, err := parser.ParseFile(token.NewFileSet(), file, text, 0); err != nil {
		return "", nil, fmt.Errorf("%q: %w", m.Intent, err)
	}
	return file, text, nil
}

func (m *mutant) applyLua() (file string, text []byte, err error) {
	file = filepath.Join(m.dir, m.File)
	source, err := os.ReadFile(file)
	if err != nil {
		return "", nil, err
	}
	if text, err = m.change(source, file); err != nil {
		return "", nil, err
	}
	if _, err := parse.Parse(bytes.NewReader(text), file); err != nil {
		return "", nil, fmt.Errorf("%q: %w", m.Intent, err)
	}
	return file, text, nil
}

// change returns the new text of a place.
func (m *mutant) change(text []byte, place string) ([]byte, error) {
	if n := bytes.Count(text, []byte(m.Old)); n != 1 {
		return nil, fmt.Errorf("%s has the text %q %d times, not once", place, m.Old, n)
	}
	return bytes.Replace(text, []byte(m.Old), []byte(m.New), 1), nil
}

// find returns the position of a declaration in a source; to is 0 if it is missing.
func find(source []byte, name string) (from, to int, err error) {
	if !bytes.Contains(source, []byte(name[strings.LastIndexByte(name, '.')+1:])) { // a package has many files
		return 0, 0, nil
	}
	set := token.NewFileSet()
	file, err := parser.ParseFile(set, "", source, 0)
	if err != nil {
		return 0, 0, err
	}
	for _, decl := range file.Decls {
		if declares(decl, name) {
			return set.Position(decl.Pos()).Offset, set.Position(decl.End()).Offset, nil
		}
	}
	return 0, 0, nil
}

func declares(decl ast.Decl, name string) bool {
	switch d := decl.(type) {
	case *ast.FuncDecl:
		return nameOf(d) == name
	case *ast.GenDecl:
		for _, spec := range d.Specs {
			switch s := spec.(type) {
			case *ast.TypeSpec:
				if s.Name.Name == name {
					return true
				}
			case *ast.ValueSpec:
				for _, n := range s.Names {
					if n.Name == name {
						return true
					}
				}
			}
		}
	}
	return false
}

// nameOf returns Function or (Type).Method.
func nameOf(d *ast.FuncDecl) string {
	if d.Recv == nil {
		return d.Name.Name
	}
	t := d.Recv.List[0].Type
	for {
		switch inner := t.(type) {
		case *ast.StarExpr:
			t = inner.X
		case *ast.IndexExpr:
			t = inner.X
		case *ast.IndexListExpr:
			t = inner.X
		case *ast.Ident:
			return "(" + inner.Name + ")." + d.Name.Name
		default:
			return ""
		}
	}
}
