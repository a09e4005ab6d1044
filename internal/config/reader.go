package config

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

// maxNodes bounds what a file may expand to: with aliases, a few lines of YAML
// can stand for more nodes than there is memory.
const maxNodes = 1_000_000

// maxErrors bounds what is told about one file.
const maxErrors = 1000

// reader walks the tree of a file and collects what is wrong with it.
type reader struct {
	file   string
	errors Errors
	nodes  int // seen so far
}

// field reads the value at one place of the file.
type field func(at place)

// place is a value in the file and the way to it.
type place struct {
	path string
	node *yaml.Node
}

func (r *reader) fail(at place, format string, args ...any) {
	if len(r.errors) == maxErrors {
		return
	}
	r.errors = append(r.errors, Error{File: r.file, Line: max(at.node.Line, 1), Path: at.path, Text: fmt.Sprintf(format, args...)})
}

// missing tells that a field of at is not there, unless something was told
// already that explains why.
func (r *reader) missing(at place, name, text string) {
	path := join(at.path, name)
	for _, e := range r.errors {
		if e.Path == at.path || e.Path == path || strings.HasPrefix(e.Path, path+"[") {
			return
		}
	}
	r.fail(at.child(name), "%s", text)
}

// child is the place of a field below at, or at itself, under the field's name,
// when the file does not have it.
func (at place) child(name string) place {
	node := at.node
	if node.Kind == yaml.AliasNode {
		node = node.Alias
	}
	for i := 0; i+1 < len(node.Content) && node.Kind == yaml.MappingNode; i += 2 {
		if node.Content[i].Value == name {
			node = node.Content[i]
			break
		}
	}
	return place{path: join(at.path, name), node: node}
}

// resolve follows an alias, so that every reader sees a value and errors are
// found where it is written. It is not ok when the file is too large to go on.
func (r *reader) resolve(at place) (place, bool) {
	r.nodes++
	if r.nodes > maxNodes {
		if r.nodes == maxNodes+1 {
			r.fail(at, "the file has more than %d values; use fewer aliases", maxNodes)
		}
		return at, false
	}
	if at.node.Kind == yaml.AliasNode {
		at.node = at.node.Alias // an alias of an alias cannot be written
	}
	return at, true
}

// mapping reads a value that is a mapping with some of the given fields.
func (r *reader) mapping(at place, fields map[string]field) {
	at, ok := r.resolve(at)
	if !ok {
		return
	}
	if at.node.Kind != yaml.MappingNode {
		r.fail(at, "must be a mapping with the fields %s", names(fields))
		return
	}
	seen := make(map[string]int, len(at.node.Content)/2)
	for i := 0; i+1 < len(at.node.Content); i += 2 {
		key, value := at.node.Content[i], at.node.Content[i+1]
		here := place{path: join(at.path, key.Value), node: key}
		read, known := fields[key.Value]
		switch first, twice := seen[key.Value]; {
		case key.Kind != yaml.ScalarNode:
			r.fail(place{at.path, key}, "a field's name must be a word")
		case !known:
			r.fail(here, "unknown field; the fields here are %s", names(fields))
		case twice:
			r.fail(here, "given twice; the first is in line %d", first)
		default:
			seen[key.Value] = key.Line
			read(place{path: here.path, node: value})
		}
	}
}

// list reads a value that is a list, and each of its items with item.
func (r *reader) list(item field) field {
	return func(at place) {
		at, ok := r.resolve(at)
		if !ok {
			return
		}
		if at.node.Kind != yaml.SequenceNode {
			r.fail(at, "must be a list, as in [a, b]")
			return
		}
		for i, n := range at.node.Content {
			item(place{path: at.path + "[" + strconv.Itoa(i) + "]", node: n})
		}
	}
}

// text reads a string that is not empty and passes check, which says what is
// wrong with it, or "". A nil check takes every string.
func (r *reader) text(to *string, check func(string) string) field {
	return func(at place) {
		at, ok := r.resolve(at)
		if !ok {
			return
		}
		if at.node.Kind != yaml.ScalarNode || at.node.Tag == "!!null" || at.node.Value == "" {
			r.fail(at, "must be a string that is not empty; leave the field out for its default")
			return
		}
		if check != nil {
			if wrong := check(at.node.Value); wrong != "" {
				r.fail(at, "%s", wrong)
				return
			}
		}
		*to = at.node.Value
	}
}

// duration reads a time like 1m30s, at least least.
func (r *reader) duration(to *time.Duration, least time.Duration) field {
	var s string
	return r.text(&s, func(v string) string {
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

// durationUpTo reads a time between least and most.
func (r *reader) durationUpTo(to *time.Duration, least, most time.Duration) field {
	return func(at place) {
		was := *to
		if r.duration(to, least)(at); *to > most {
			r.fail(at, "%s is too long; it must be at most %s", *to, most)
			*to = was
		}
	}
}

// integer reads a whole number between least and most.
func (r *reader) integer(to *int, least, most int) field {
	var s string
	return r.text(&s, func(v string) string {
		n, err := strconv.Atoi(v)
		if err != nil || n < least || n > most {
			return fmt.Sprintf("%q is not possible; it must be a whole number from %d to %d", v, least, most)
		}
		*to = n
		return ""
	})
}

// share reads a number that is more than 0 and at most 1.
func (r *reader) share(to *float64) field {
	var s string
	return r.text(&s, func(v string) string {
		f, err := strconv.ParseFloat(v, 64)
		if err != nil || math.IsNaN(f) || f <= 0 || f > 1 {
			return fmt.Sprintf("%q is not possible; it must be a number that is more than 0 and at most 1", v)
		}
		*to = f
		return ""
	})
}

// ratio reads a number from 0 to 1.
func (r *reader) ratio(to *float64) field {
	var s string
	return r.text(&s, func(v string) string {
		f, err := strconv.ParseFloat(v, 64)
		if err != nil || math.IsNaN(f) || f < 0 || f > 1 {
			return fmt.Sprintf("%q is not possible; it must be a number from 0 to 1", v)
		}
		*to = f
		return ""
	})
}

// boolean reads true or false.
func (r *reader) boolean(to *bool) field {
	var s string
	return r.text(&s, func(v string) string {
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

func names(fields map[string]field) string {
	return strings.Join(slices.Sorted(maps.Keys(fields)), ", ")
}
