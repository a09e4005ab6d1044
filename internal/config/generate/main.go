// Command generate writes the schema and the reference of the configuration from the structs of its packages: their
// tags, and the comments of their fields. `make generate` runs it at the root of the repository; with -check it
// compares.
package main

import (
	"go/ast"
	"go/parser"
	"go/token"
	"maps"
	"path/filepath"
	"reflect"
	"slices"
	"strings"

	"github.com/capgate/capgate/gateway/upstream/protocols"
	"github.com/capgate/capgate/internal/config"
	"github.com/capgate/capgate/internal/lib/generated"
	"github.com/capgate/capgate/internal/lib/plainjson"
)

const module = "github.com/capgate/capgate/"

// packages returns the folders with structs of the configuration.
func packages() []string {
	types := map[reflect.Type]bool{}
	structsOf(reflect.TypeFor[config.Config](), types)
	for _, p := range protocols.Config() {
		structsOf(reflect.TypeOf(p.New()), types)
	}
	folders := map[string]bool{}
	for t := range types {
		folders[strings.TrimPrefix(t.PkgPath(), module)] = true
	}
	return slices.Sorted(maps.Keys(folders))
}

// structsOf adds the structs of this module that a value of a type consists of.
func structsOf(t reflect.Type, to map[reflect.Type]bool) {
	switch t.Kind() { //nolint:exhaustive // all others are scalars
	case reflect.Pointer, reflect.Slice, reflect.Map:
		structsOf(t.Elem(), to)
	case reflect.Struct:
		if to[t] || !strings.HasPrefix(t.PkgPath(), module) {
			return
		}
		to[t] = true
		for i := range t.NumField() {
			structsOf(t.Field(i).Type, to)
		}
	}
}

func main() { generated.Main(run) }

// run writes the files below the root of the repository, or compares them.
func run(root string, check bool) error {
	files, err := generate(root)
	if err != nil {
		return err
	}
	return generated.Put(root, files, check)
}

// generate returns the generated files by their names.
func generate(root string) (map[string][]byte, error) {
	docs := comments{}
	for _, dir := range packages() {
		if err := docs.read(root, dir); err != nil {
			return nil, err
		}
	}
	all := config.Describe(docs.of, protocols.Config()...)
	schema, err := plainjson.Indent(all.Schema)
	if err != nil {
		return nil, err
	}
	return map[string][]byte{
		"internal/config/schema.json": schema,
		"docs/run/configuration.md":   reference(all),
	}, nil
}

// comments are those of the fields of structs, by package.Struct.Field, and of structs.
type comments map[string]string

// of returns the comment of a field, with a note on restarts; or for "" of the struct.
func (c comments) of(t reflect.Type, field string) string {
	text := c[t.PkgPath()+"."+t.Name()+"."+field]
	if f, is := t.FieldByName(field); is {
		text = strings.TrimSpace(text + " " + config.RestartNote(f))
	}
	return text
}

func (c comments) read(root, dir string) error {
	files, err := filepath.Glob(filepath.Join(root, dir, "*.go"))
	if err != nil {
		return err
	}
	for _, name := range files {
		if strings.HasSuffix(name, "_test.go") {
			continue
		}
		file, err := parser.ParseFile(token.NewFileSet(), name, nil, parser.ParseComments)
		if err != nil {
			return err
		}
		ast.Inspect(file, func(n ast.Node) bool {
			decl, ok := n.(*ast.GenDecl)
			if ok && decl.Tok == token.TYPE {
				for _, spec := range decl.Specs {
					c.add(module+dir, spec.(*ast.TypeSpec), decl.Doc)
				}
			}
			return true
		})
	}
	return nil
}

func (c comments) add(pkg string, spec *ast.TypeSpec, doc *ast.CommentGroup) {
	s, ok := spec.Type.(*ast.StructType)
	if !ok {
		return
	}
	name := pkg + "." + spec.Name.Name + "."
	if rest, ok := strings.CutPrefix(line(doc), spec.Name.Name+" "); ok {
		c[name] = strings.ToUpper(rest[:1]) + rest[1:]
	}
	for _, f := range s.Fields.List {
		names := f.Names
		if ident, ok := f.Type.(*ast.Ident); ok && len(names) == 0 {
			names = []*ast.Ident{ident}
		}
		for _, field := range names {
			c[name+field.Name] = line(f.Doc)
		}
	}
}

// line returns a comment without its line breaks.
func line(doc *ast.CommentGroup) string { return strings.Join(strings.Fields(doc.Text()), " ") }
