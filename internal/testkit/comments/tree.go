package comments

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"maps"
	"path"
	"path/filepath"
	"strings"
)

// Tree is the parsed Go files of a module.
type Tree struct {
	module   string
	fset     *token.FileSet
	packages map[string]*pkg // by folder, relative to the root
	words    map[string]bool // words in code, including string literals, but not in comments
}

// pkg is a package with its tests.
type pkg struct {
	name  string
	files []*ast.File
	names map[string]bool // declared functions, methods, types, fields and values
}

// skipped lists folders without Go files of the module.
var skipped = map[string]bool{"bin": true, "node_modules": true, "testdata": true, ".git": true}

// Read parses the Go files below root, the folder of a module.
func Read(root fs.FS, module string) (*Tree, error) {
	t := &Tree{module: module, fset: token.NewFileSet(), packages: map[string]*pkg{}, words: map[string]bool{}}
	return t, fs.WalkDir(root, ".", func(name string, d fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case d.IsDir() && skipped[d.Name()]:
			return fs.SkipDir
		case d.IsDir() || filepath.Ext(name) != ".go":
			return nil
		}
		text, err := fs.ReadFile(root, name)
		if err != nil {
			return err
		}
		return t.add(name, text)
	})
}

// add parses a file.
func (t *Tree) add(name string, text []byte) error {
	f, err := parser.ParseFile(t.fset, name, text, parser.ParseComments)
	if err != nil {
		return fmt.Errorf("parse: %w", err)
	}
	folder := path.Dir(name)
	p := t.packages[folder]
	if p == nil {
		p = &pkg{names: map[string]bool{}}
		t.packages[folder] = p
	}
	if !strings.HasSuffix(f.Name.Name, "_test") {
		p.name = f.Name.Name
	}
	p.files = append(p.files, f)
	ast.Inspect(f, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.CommentGroup:
			return false
		case *ast.Ident:
			t.words[n.Name] = true
		case *ast.BasicLit:
			for _, word := range camel.FindAllString(n.Value, -1) {
				t.words[word] = true
			}
		}
		for _, name := range declared(n) {
			p.names[name.Name] = true
		}
		return true
	})
	return nil
}

// declared returns the names that a node declares.
func declared(n ast.Node) []*ast.Ident {
	switch n := n.(type) {
	case *ast.FuncDecl:
		return []*ast.Ident{n.Name}
	case *ast.TypeSpec:
		return []*ast.Ident{n.Name}
	case *ast.ValueSpec:
		return n.Names
	case *ast.Field:
		return n.Names
	}
	return nil
}

// imports returns the packages that the files of a package import, by their local names. Packages of other modules are
// nil.
func (t *Tree) imports(of *pkg) map[string]*pkg {
	all := map[string]*pkg{}
	for _, f := range of.files {
		for _, spec := range f.Imports {
			imported := strings.Trim(spec.Path.Value, `"`)
			name, p := path.Base(imported), (*pkg)(nil)
			if folder, own := strings.CutPrefix(imported, t.module+"/"); own && t.packages[folder] != nil {
				p = t.packages[folder]
				name = p.name
			}
			if spec.Name != nil {
				name = spec.Name.Name
			}
			all[name] = p
		}
	}
	return all
}

// byName returns the module's packages with a name.
func (t *Tree) byName(name string) (all []*pkg) {
	for p := range maps.Values(t.packages) {
		if p.name == name {
			all = append(all, p)
		}
	}
	return all
}
