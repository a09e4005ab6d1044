package strictyaml

import (
	"fmt"
	"maps"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"

	"go.yaml.in/yaml/v3"
)

// maxNodes bounds the size that a file may expand to. With aliases, a few lines of YAML can stand for more
// nodes than fit into memory.
const maxNodes = 1_000_000

// maxErrors bounds the errors of one file.
const maxErrors = 1000

// Reader walks the tree of a file and collects its errors.
type Reader struct {
	File   string // name of the file in errors
	Errors Errors // at most 1,000
	nodes  int    // seen so far
}

// Field reads the value at one place of the file.
type Field func(at Place)

// Place is a value in the file and the path to it.
type Place struct {
	Path string
	Node *yaml.Node
}

// Fail records an error at a place.
func (r *Reader) Fail(at Place, format string, args ...any) {
	if len(r.Errors) == maxErrors {
		return
	}
	r.Errors = append(r.Errors, Error{File: r.File, Line: max(at.Node.Line, 1), Path: at.Path,
		Text: fmt.Sprintf(format, args...)})
}

// Missing records that a field of at is missing, unless an earlier error explains it.
func (r *Reader) Missing(at Place, name, text string) {
	path := join(at.Path, name)
	for _, e := range r.Errors {
		if e.Path == at.Path || e.Path == path || strings.HasPrefix(e.Path, path+"[") {
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

// Has reports whether the mapping at this place has a field of that name.
func (at Place) Has(name string) bool { return at.find(name) != nil }

// find returns the name node of a field below at, or nil.
func (at Place) find(name string) *yaml.Node {
	node := at.Node
	if node.Kind == yaml.AliasNode {
		node = node.Alias
	}
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
	r.nodes++
	if r.nodes > maxNodes {
		if r.nodes == maxNodes+1 {
			r.Fail(at, "the file has more than %d values; use fewer aliases", maxNodes)
		}
		return at, false
	}
	if at.Node.Kind == yaml.AliasNode {
		at.Node = at.Node.Alias // an alias of an alias cannot be written
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
		r.Fail(at, "must be a mapping with the fields %s", names(fields))
		return
	}
	seen := make(map[string]int, len(at.Node.Content)/2)
	for i := 0; i+1 < len(at.Node.Content); i += 2 {
		key, value := at.Node.Content[i], at.Node.Content[i+1]
		here := Place{Path: join(at.Path, key.Value), Node: key}
		read, known := fields[key.Value]
		switch first, twice := seen[key.Value]; {
		case key.Kind != yaml.ScalarNode:
			r.Fail(Place{at.Path, key}, "a field's name must be a word")
		case !known:
			r.Fail(here, "unknown field; the fields here are %s", names(fields))
		case twice:
			r.Fail(here, "given twice; the first is in line %d", first)
		default:
			seen[key.Value] = key.Line
			read(Place{Path: here.Path, Node: value})
		}
	}
}

// Entries reads a mapping whose names are not fixed. It reads each value with the field that entry returns for
// its name.
func (r *Reader) Entries(entry func(name string) Field) Field {
	return func(at Place) {
		at, ok := r.resolve(at)
		if !ok {
			return
		}
		fields := map[string]Field{}
		for i := 0; i+1 < len(at.Node.Content) && at.Node.Kind == yaml.MappingNode; i += 2 {
			if name := at.Node.Content[i].Value; fields[name] == nil {
				fields[name] = entry(name)
			}
		}
		if at.Node.Kind != yaml.MappingNode || len(fields) == 0 {
			r.Fail(at, "must be a mapping, as in {name: value}")
			return
		}
		r.Mapping(at, fields)
	}
}

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
			item(Place{Path: at.Path + "[" + strconv.Itoa(i) + "]", Node: n})
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
			r.Fail(at, "must be a string that is not empty; leave the field out for its default")
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

// Duration reads a time like 1m30s that is not below least.
func (r *Reader) Duration(to *time.Duration, least time.Duration) Field {
	var s string
	return r.Text(&s, func(v string) string {
		d, err := time.ParseDuration(v)
		switch {
		case err != nil:
			return fmt.Sprintf("%q is not a duration; write a number with a unit, as in 500ms, 5s or 2m", v)
		case d < 0:
			return fmt.Sprintf("%s is not possible; it must not be negative", d)
		case d == 0 && least > 0:
			return "0 is not possible; it must be more than 0"
		case d < least:
			return fmt.Sprintf("%s is too short; it must be at least %s", d, least)
		}
		*to = d
		return ""
	})
}

// DurationUpTo reads a time between least and most.
func (r *Reader) DurationUpTo(to *time.Duration, least, most time.Duration) Field {
	return func(at Place) {
		was := *to
		if r.Duration(to, least)(at); *to > most {
			r.Fail(at, "%s is too long; it must be at most %s", *to, most)
			*to = was
		}
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

// Share reads a number above 0 and up to 1.
func (r *Reader) Share(to *float64) Field {
	var s string
	return r.Text(&s, func(v string) string {
		f, err := strconv.ParseFloat(v, 64)
		if err != nil || math.IsNaN(f) || f <= 0 || f > 1 {
			return fmt.Sprintf("%q is not possible; it must be a number above 0 and up to 1", v)
		}
		*to = f
		return ""
	})
}

// Ratio reads a number from 0 to 1.
func (r *Reader) Ratio(to *float64) Field {
	var s string
	return r.Text(&s, func(v string) string {
		f, err := strconv.ParseFloat(v, 64)
		if err != nil || math.IsNaN(f) || f < 0 || f > 1 {
			return fmt.Sprintf("%q is not possible; it must be a number from 0 to 1", v)
		}
		*to = f
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

func join(path, name string) string {
	if path == "" {
		return name
	}
	return path + "." + name
}

func names(fields map[string]Field) string {
	return strings.Join(slices.Sorted(maps.Keys(fields)), ", ")
}
