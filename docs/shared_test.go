package docs_test

import (
	"go/ast"
	"go/parser"
	"go/token"
	"go/types"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/capgate/capgate/internal/testkit/check"
)

// TestSharedStateIsListed: each type with a lock and a map, a cache or a list of other owners' entries is a row of
// docs/inside/shared.md, and each row is such a type.
func TestSharedStateIsListed(t *testing.T) {
	t.Parallel()
	text, err := os.ReadFile("inside/shared.md")
	check.Must(t, err)
	listed := map[string]bool{}
	for _, row := range regexp.MustCompile("(?m)^\\| `([^`]+)` \\| [^|]+ \\| [^|]+ \\| [^|]+ \\|$").FindAllSubmatch(
		text, -1) {
		listed[string(row[1])] = true
	}
	found := sharedTypes(t)
	for _, name := range slices.Sorted(maps.Keys(found)) {
		if !listed[name] {
			t.Errorf("%s has no row with an owner and a bound", name)
		}
	}
	for _, name := range slices.Sorted(maps.Keys(listed)) {
		if !found[name] {
			t.Errorf("the row of %s is of no such type", name)
		}
	}
	if len(found) < 40 {
		t.Errorf("%d types were found", len(found))
	}
}

// sharedTypes returns the types of the product, as folder.Type.
func sharedTypes(t *testing.T) map[string]bool {
	t.Helper()
	found := map[string]bool{}
	for _, root := range []string{"cmd", "gateway", "health", "internal", "policy", "router"} {
		check.Must(t, filepath.WalkDir(filepath.Join("..", root), func(path string, d fs.DirEntry, err error) error {
			if err == nil && d.IsDir() && slices.Contains([]string{"testkit", "conform", "container", "verify"},
				d.Name()) {
				return fs.SkipDir
			}
			if err != nil || d.IsDir() || !strings.HasSuffix(path, ".go") || strings.HasSuffix(path, "_test.go") {
				return err
			}
			file, err := parser.ParseFile(token.NewFileSet(), path, nil, 0)
			if err != nil {
				return err
			}
			folder := strings.TrimPrefix(filepath.ToSlash(filepath.Dir(path)), "../")
			ast.Inspect(file, func(n ast.Node) bool {
				if spec, ok := n.(*ast.TypeSpec); ok && isShared(spec.Type) {
					found[folder+"."+spec.Name.Name] = true
				}
				return true
			})
			return nil
		}))
	}
	return found
}

// isShared reports whether a type has entries that several goroutines reach.
func isShared(of ast.Expr) bool {
	s, ok := of.(*ast.StructType)
	if !ok {
		return false
	}
	lock, entries := false, false
	for _, f := range s.Fields.List {
		name := types.ExprString(f.Type)
		lock = lock || name == "sync.Mutex" || name == "sync.RWMutex"
		entries = entries || strings.HasPrefix(name, "map[") || name == "list.List"
		if name == "sync.Map" || strings.Contains(name, "lru.") || strings.Contains(name, "cache.Cache[") ||
			strings.HasPrefix(name, "atomic.Pointer[map[") {
			return true
		}
	}
	return lock && entries
}
