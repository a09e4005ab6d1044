package comments

import (
	"fmt"
	"go/ast"
	"go/token"
	"iter"
	"regexp"
	"slices"
	"strings"
)

var (
	// camel matches a word with an inner capital letter, which is rarely an English word.
	camel = regexp.MustCompile(`\b(?:[a-z]+|[A-Z][a-z]+)[A-Z][A-Za-z0-9]*\b`)
	// qualified matches a name of another package, perhaps with a method or a field.
	qualified = regexp.MustCompile(`\b([a-z][a-z0-9]+)\.([A-Z]\w*)(?:\.([A-Z]\w*))?`)
	// notNames matches text whose words are not names: code blocks, paths, URLs and quotations.
	notNames = regexp.MustCompile("(?m)^\t.*$|\\S*/\\S*|`[^`]*`|\"[^\"]*\"")
	// generated is the comment of a generated file.
	generated = regexp.MustCompile(`(?m)^// Code generated .* DO NOT EDIT\.$`)
)

// Mistakes returns the comments that refer to missing identifiers, each with its place, in order. known lists other
// words that look like names.
func (t *Tree) Mistakes(known []string) (all []string) {
	for _, p := range t.packages {
		imports := t.imports(p)
		for _, f := range p.files {
			if !isGenerated(f) {
				all = append(all, t.docs(f)...)
				all = append(all, t.references(f, imports, known)...)
			}
		}
	}
	slices.Sort(all)
	return all
}

func isGenerated(f *ast.File) bool {
	for _, c := range f.Comments {
		for _, line := range c.List {
			if c.Pos() < f.Package && generated.MatchString(line.Text) {
				return true
			}
		}
	}
	return false
}

// docs returns the doc comments of a file that do not begin with the declared name. Comments of tests and of groups of
// values need not.
func (t *Tree) docs(f *ast.File) (all []string) {
	for _, d := range f.Decls {
		for name, doc := range documented(d) {
			if doc.Text() == "" || t.isTest(d, name) {
				continue
			}
			first := append(strings.Fields(doc.Text()), "")
			if slices.Contains([]string{"A", "An", "The"}, first[0]) {
				first = first[1:]
			}
			if word := strings.TrimRight(strings.TrimSuffix(first[0], "'s"), ",:;"); word != name {
				all = append(all, fmt.Sprintf("%s: the comment of %s begins with %q", t.at(doc.Pos()), name, word))
			}
		}
	}
	return all
}

// documented returns the names of a declaration and their comments.
func documented(d ast.Decl) iter.Seq2[string, *ast.CommentGroup] {
	return func(yield func(string, *ast.CommentGroup) bool) {
		if f, is := d.(*ast.FuncDecl); is {
			yield(f.Name.Name, f.Doc)
			return
		}
		decl := d.(*ast.GenDecl)
		for _, spec := range decl.Specs {
			doc := decl.Doc
			if decl.Lparen.IsValid() {
				doc = docOf(spec)
			}
			if names := declared(spec); len(names) == 1 && !yield(names[0].Name, doc) {
				return
			}
		}
	}
}

func docOf(s ast.Spec) *ast.CommentGroup {
	switch s := s.(type) {
	case *ast.ValueSpec:
		return s.Doc
	case *ast.TypeSpec:
		return s.Doc
	}
	return nil
}

func (t *Tree) isTest(d ast.Decl, name string) bool {
	if _, is := d.(*ast.FuncDecl); !is || !strings.HasSuffix(t.fset.Position(d.Pos()).Filename, "_test.go") {
		return false
	}
	return slices.ContainsFunc([]string{"Test", "Benchmark", "Fuzz", "Example"}, func(kind string) bool {
		return strings.HasPrefix(name, kind)
	})
}

// references returns the names in the comments of a file that are not declared anywhere.
func (t *Tree) references(f *ast.File, imports map[string]*pkg, known []string) (all []string) {
	for _, group := range f.Comments {
		text := notNames.ReplaceAllString(group.Text(), " ")
		for _, m := range qualified.FindAllStringSubmatch(text, -1) {
			if !t.declares(imports, m[1], m[2], m[3]) {
				all = append(all, fmt.Sprintf("%s: there is no %s", t.at(group.Pos()), m[0]))
			}
		}
		for _, word := range camel.FindAllString(qualified.ReplaceAllString(text, " "), -1) {
			if !t.words[word] && !slices.Contains(known, word) {
				all = append(all, fmt.Sprintf("%s: there is no %s", t.at(group.Pos()), word))
			}
		}
	}
	return all
}

// declares reports whether a package declares a name, and, if member is not "", whether the name has that member.
// Packages of other modules declare all names.
func (t *Tree) declares(imports map[string]*pkg, of, name, member string) bool {
	candidates := t.byName(of)
	if p, imported := imports[of]; imported {
		candidates = []*pkg{p}
	}
	return len(candidates) == 0 || slices.ContainsFunc(candidates, func(p *pkg) bool {
		return p == nil || p.names[name] && (member == "" || p.names[member])
	})
}

func (t *Tree) at(pos token.Pos) string {
	p := t.fset.Position(pos)
	return fmt.Sprintf("%s:%d", p.Filename, p.Line)
}
