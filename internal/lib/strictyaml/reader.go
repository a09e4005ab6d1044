package strictyaml

import (
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"go.yaml.in/yaml/v4"

	"github.com/capgate/capgate/internal/lib/nearest"
	"github.com/capgate/capgate/internal/lib/untrusted"
)

// maxNodes bounds the size that a file may expand to. With aliases, a few lines of YAML can expand to more
// nodes than fit into memory.
const maxNodes = 1_000_000

// valueBytes is the length of a text that counts as one more value. An alias repeats a long one.
const valueBytes = 64

// The bounds of the errors of one file: their number, and the bytes of a text, which may repeat a value of the file.
const (
	maxErrors = 1000
	maxText   = 2000
)

// Reader walks the tree of a file and collects its errors.
type Reader struct {
	File   string // name of the file in errors
	Errors Errors // at most 1,000; the reading stops after the last one
	// Removed says what to write in place of fields that are no longer there, by path, with [] for the items of a list.
	Removed map[string]string
	nodes   int  // seen so far
	stopped bool // the rest of the file is not read
}

// Field reads the value at one place of the file.
type Field func(at Place)

// Place is a value in the file and the path to it.
type Place struct {
	Path string
	Node *yaml.Node
}

// Fail records an error at a place. After too many of them the reading stops.
func (r *Reader) Fail(at Place, format string, args ...any) {
	if len(r.Errors) == maxErrors {
		return
	}
	if len(r.Errors) == maxErrors-1 {
		r.stopped = true
		format, args = "the file may have more problems from here on; correct the others first", nil
	}
	text := untrusted.Clip(fmt.Sprintf(format, args...), maxText)
	r.Errors = append(r.Errors, Error{File: r.File, Line: max(at.Node.Line, 1), Path: at.Path, Text: text})
}

// Abort records an error at a place, and ends the reading.
func (r *Reader) Abort(at Place, format string, args ...any) {
	r.Fail(at, format, args...)
	r.stopped = true
}

// Missing records that a field of at is missing, unless an earlier error explains it.
func (r *Reader) Missing(at Place, name, text string) {
	if r.stopped {
		return
	}
	path := join(at.Path, name)
	item := path + "["
	for i := range r.Errors {
		if e := &r.Errors[i]; e.Path == at.Path || e.Path == path || strings.HasPrefix(e.Path, item) {
			return
		}
	}
	r.Fail(at.Child(name), "%s", text)
}

// Child returns the place of a field below at. If the file does not have the field, the place is at itself,
// under the field's name.
func (at Place) Child(name string) Place {
	if node := at.find(name); node != nil {
		return Place{Path: join(at.Path, name), Node: node}
	}
	return Place{Path: join(at.Path, name), Node: at.Node}
}

// value returns the place of the value of a field below at. Without the field it has no content.
func (at Place) value(name string) Place {
	node := resolved(at.Node)
	for i := 0; i+1 < len(node.Content) && node.Kind == yaml.MappingNode; i += 2 {
		if node.Content[i].Value == name {
			return Place{Path: join(at.Path, name), Node: node.Content[i+1]}
		}
	}
	return Place{Path: join(at.Path, name), Node: &yaml.Node{Line: at.Node.Line}}
}

// item returns the place of an item of the list at this place.
func (at Place) item(i int) Place {
	item := Place{Path: nth(at.Path, i), Node: &yaml.Node{Line: at.Node.Line}}
	if node := resolved(at.Node); node.Kind == yaml.SequenceNode && i < len(node.Content) {
		item.Node = node.Content[i]
	}
	return item
}

// resolved returns the value of an alias. An alias of an alias cannot be written.
func resolved(node *yaml.Node) *yaml.Node {
	if node.Kind == yaml.AliasNode {
		return node.Alias
	}
	return node
}

// Bool returns the boolean at this place. Without is, there is none.
func (at Place) Bool() (value, is bool) {
	node := resolved(at.Node)
	is = node.Kind == yaml.ScalarNode && node.Tag == "!!bool" && (node.Value == "true" || node.Value == "false")
	return is && node.Value == "true", is
}

// IsList reports whether there is a list at this place.
func (at Place) IsList() bool { return resolved(at.Node).Kind == yaml.SequenceNode }

// Has reports whether the mapping at this place has a field of that name.
func (at Place) Has(name string) bool { return at.find(name) != nil }

// find returns the name node of a field below at, or nil.
func (at Place) find(name string) *yaml.Node {
	node := resolved(at.Node)
	for i := 0; i+1 < len(node.Content) && node.Kind == yaml.MappingNode; i += 2 {
		if node.Content[i].Value == name {
			return node.Content[i]
		}
	}
	return nil
}

// resolve follows an alias, so that every reader sees a value, and errors have the line of its definition. It
// returns false if the file is too large to go on.
func (r *Reader) resolve(at Place) (Place, bool) {
	if r.stopped {
		return at, false
	}
	at.Node = resolved(at.Node)
	r.nodes += 1 + len(at.Node.Value)/valueBytes
	if r.nodes > maxNodes {
		r.Abort(at, "the file has more than %d values; use fewer aliases", maxNodes)
		return at, false
	}
	return at, true
}

// Mapping reads a value that is a mapping with some of the given fields.
func (r *Reader) Mapping(at Place, fields map[string]Field) {
	at, ok := r.resolve(at)
	if !ok {
		return
	}
	if at.Node.Kind != yaml.MappingNode {
		r.Fail(at, "must be a mapping with the fields %s", strings.Join(slices.Sorted(maps.Keys(fields)), ", "))
		return
	}
	seen := make(map[string]int, len(at.Node.Content)/2)
	for i := 0; i+1 < len(at.Node.Content) && !r.stopped; i += 2 {
		key, value := at.Node.Content[i], at.Node.Content[i+1]
		here := Place{Path: join(at.Path, key.Value), Node: key}
		read, is := fields[key.Value]
		switch first, twice := seen[key.Value]; {
		case key.Kind != yaml.ScalarNode:
			r.Fail(Place{at.Path, key}, "a field's name must be a word")
		case !is && r.Removed[kind(here.Path)] != "":
			r.Fail(here, "this field was removed; %s", r.Removed[kind(here.Path)])
		case !is:
			r.Fail(here, "unknown field%s", known(key.Value, slices.Sorted(maps.Keys(fields))))
		case twice:
			r.Fail(here, "given twice; the first is in line %d", first)
		default:
			seen[key.Value] = key.Line
			read(Place{Path: here.Path, Node: value})
		}
	}
}

var index = regexp.MustCompile(`\[\d+\]`)

// kind returns a path without the indices of lists.
func kind(path string) string { return index.ReplaceAllString(path, "[]") }

// List reads a list, and each of its items with item.
func (r *Reader) List(item Field) Field {
	return func(at Place) {
		at, ok := r.resolve(at)
		if !ok {
			return
		}
		if at.Node.Kind != yaml.SequenceNode {
			r.Fail(at, "must be a list, as in [a, b]")
			return
		}
		for i, n := range at.Node.Content {
			if r.stopped {
				return
			}
			item(Place{Path: nth(at.Path, i), Node: n})
		}
	}
}

// Text reads a non-empty string. The function check returns the problem of a string, or "". A nil check accepts
// every string.
func (r *Reader) Text(to *string, check func(string) string) Field {
	return func(at Place) {
		at, ok := r.resolve(at)
		if !ok {
			return
		}
		if at.Node.Kind != yaml.ScalarNode || at.Node.Tag == "!!null" || at.Node.Value == "" {
			r.Fail(at, "must be a string that is not empty; an optional field may be left out")
			return
		}
		if check != nil {
			if wrong := check(at.Node.Value); wrong != "" {
				r.Fail(at, "%s", wrong)
				return
			}
		}
		*to = at.Node.Value
	}
}

// Integer reads a whole number between least and most.
func (r *Reader) Integer(to *int, least, most int) Field {
	var s string
	return r.Text(&s, func(v string) string {
		n, err := strconv.Atoi(v)
		if err != nil || n < least || n > most {
			return fmt.Sprintf("%q is not possible; it must be a whole number from %d to %d", v, least, most)
		}
		*to = n
		return ""
	})
}

// Boolean reads true or false.
func (r *Reader) Boolean(to *bool) Field {
	var s string
	return r.Text(&s, func(v string) string {
		if v != "true" && v != "false" {
			return fmt.Sprintf("%q is not possible; it must be true or false", v)
		}
		*to = v == "true"
		return ""
	})
}

// known returns the end of an error about an unknown name: the closest of the known names, or all of them.
func known(name string, names []string) string {
	if hint := nearest.Hint(name, names); hint != "" {
		return hint
	}
	return "; the fields here are " + strings.Join(names, ", ")
}
