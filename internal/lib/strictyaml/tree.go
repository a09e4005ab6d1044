package strictyaml

import (
	"strconv"

	"go.yaml.in/yaml/v4"

	"github.com/capgate/capgate/internal/lib/untrusted"
)

// The bounds of paths in errors, in bytes: of a whole path, and of one name. A tree of a small file can have very long
// paths, and so many of them that they take minutes.
const (
	maxPath = 1000
	maxName = 100
)

// maxDepth bounds the levels of a tree with its aliases resolved.
const maxDepth = 1000

// join returns the path of a field below path.
func join(path, name string) string {
	name = untrusted.Clip(name, maxName)
	switch {
	case path == "":
		return name
	case len(path) > maxPath:
		return path
	}
	return path + "." + name
}

// nth returns the path of an item of the list at path.
func nth(path string, i int) string {
	if len(path) > maxPath {
		return path
	}
	return path + "[" + strconv.Itoa(i) + "]"
}

// tree checks the form of a document before any of it is read.
type tree struct {
	*Reader
	depths map[*yaml.Node]int // of the nodes that are known; 0: the node is being looked at
	failed bool
}

// wellFormed reports whether every reader sees the same finite tree: no alias is within its own anchor, no value has a
// tag that changes its meaning, and the levels are bounded.
func (r *Reader) wellFormed(root *yaml.Node) bool {
	t := &tree{Reader: r, depths: map[*yaml.Node]int{}}
	if depth := t.depth(root); !t.failed && depth > maxDepth {
		t.fail(root, "the file has more than %d levels", maxDepth)
	}
	return !t.failed
}

func (t *tree) fail(at *yaml.Node, format string, args ...any) {
	if !t.failed {
		t.failed = true
		t.Fail(Place{Node: at}, format, args...)
	}
}

// depth returns the levels of a node. Each node is visited once; the levels in the text are bounded by the parser.
func (t *tree) depth(n *yaml.Node) int {
	if known, seen := t.depths[n]; seen {
		return known
	}
	t.depths[n] = 0
	deepest := 0
	switch {
	case n.Kind == yaml.AliasNode:
		if deepest = t.depth(n.Alias); deepest == 0 {
			t.fail(n, "the alias *%s is within its own anchor", n.Value)
		}
		deepest-- // it takes the place of its anchor
	case n.Style&yaml.TaggedStyle != 0:
		t.fail(n, "the tag %s is not supported; write the value without it", n.Tag)
	}
	for i := 0; i < len(n.Content) && !t.failed; i++ {
		deepest = max(deepest, t.depth(n.Content[i]))
	}
	t.depths[n] = deepest + 1
	return deepest + 1
}
