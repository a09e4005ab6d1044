package openapi

import (
	"net/url"
	"strconv"
	"strings"
)

const (
	refKeyword = "$ref"

	maxSchema = 128 << 10 // bytes of one tool's
	maxWeight = 20_000    // of one tool's
)

// schemaOf returns the input_schema of a tool as the component of that name, and its definitions as further components,
// with names that are not taken. A schema that is too large is replaced by a schema of any object.
func schemaOf(component string, input map[string]any, taken names) map[string]any {
	s := &converter{component: component, named: map[string]string{}, moved: map[string]string{}}
	s.find(input, "")
	s.root = s.convert(input, location{})
	s.dropDangling()
	weight := s.weight()
	parts := map[string]any{component: s.root}
	s.lift(s.root, "", parts, taken.clone())
	s.write()
	if text, err := encode(parts); err != nil || len(text) > maxSchema || weight > maxWeight {
		return map[string]any{component: map[string]any{"type": "object", "additionalProperties": true,
			"description": "The schema is too large to be shown here. The list of the capability's tools has it."}}
	}
	for name := range parts {
		taken.add(name)
	}
	if s.root["type"] == nil && s.root[refKeyword] == nil {
		s.root["type"] = "object" // arguments always are an object
		s.open(s.root)
	}
	return parts
}

// converter converts one schema.
type converter struct {
	component string
	named     map[string]string // $anchor or $id ─► pointer
	refs      []*reference
	moved     map[string]string // pointer of a definition ─► the component that it is now
	root      map[string]any
	closes    bool // unevaluatedProperties may look at what any part allows
}

// reference is a reference in the converted schema.
type reference struct {
	in map[string]any
	to string // pointer; "?" if it leaves the schema
}

// location is a position in the original schema, as JSON pointers (RFC 6901).
type location struct {
	at   string
	base string // the enclosing resource, to which references are relative (JSON Schema 2020-12 §8.2)
}

func (p location) below(names ...string) location {
	for _, name := range names {
		p.at += "/" + escape(name)
	}
	return p
}

// find collects the anchors and ids that references may use.
func (s *converter) find(v any, at string) {
	switch v := v.(type) {
	case map[string]any:
		for _, keyword := range []string{"$anchor", "$dynamicAnchor"} {
			if name, ok := v[keyword].(string); ok {
				s.named["#"+name] = at
			}
		}
		if id, ok := v["$id"].(string); ok {
			s.named[id] = at
		}
		for name, child := range v {
			s.closes = s.closes || name == "unevaluatedProperties"
			s.find(child, at+"/"+escape(name))
		}
	case []any:
		for i, child := range v {
			s.find(child, at+"/"+strconv.Itoa(i))
		}
	}
}

// convert returns the copy of a schema for the document.
func (s *converter) convert(v any, p location) map[string]any {
	now := map[string]any{}
	old, ok := v.(map[string]any)
	if !ok {
		if v == false {
			now["not"] = map[string]any{}
		}
		return now
	}
	if id, ok := old["$id"].(string); ok && id != "" && id[0] != '#' {
		p.base = p.at
	}
	old = upgrade(old)
	for keyword, value := range old {
		if converted := s.value(keywords[keyword], keyword, value, p); converted != nil {
			now[keyword] = converted
		}
	}
	if ref, ok := old[refKeyword].(string); ok {
		r := &reference{in: now, to: s.pointer(ref, p.base)}
		now[refKeyword] = r // replaced by write
		s.refs = append(s.refs, r)
	}
	s.open(now)
	return now
}

// open says of an object without any declared properties that it may have all, which it may anyway: generators of
// clients take it for an object that is always empty.
func (s *converter) open(now map[string]any) {
	if now["type"] != "object" || s.closes {
		return
	}
	for _, keyword := range []string{"properties", "patternProperties", "additionalProperties", "enum", "const",
		"allOf", "anyOf", "oneOf", "if", "dependentSchemas", refKeyword} {
		if now[keyword] != nil {
			return
		}
	}
	now["additionalProperties"] = true
}

// value converts a keyword's value; nil drops the keyword.
func (s *converter) value(k kind, keyword string, value any, p location) any {
	switch k {
	case data:
		if !hasReference(value) {
			return value
		}
	case text:
		if t, ok := value.(string); ok {
			return plainText(t)
		}
	case schema:
		if closed, ok := value.(bool); ok && keyword == "additionalProperties" {
			return closed
		}
		return s.convert(value, p.below(keyword))
	case schemas:
		old, _ := value.([]any)
		now := make([]any, len(old))
		for i, child := range old {
			now[i] = s.convert(child, p.below(keyword, strconv.Itoa(i)))
		}
		return now
	case schemaMap:
		old, _ := value.(map[string]any)
		now := make(map[string]any, len(old))
		for name, child := range old {
			now[name] = s.convert(child, p.below(keyword, name))
		}
		return now
	}
	return nil
}

// pointer returns the target of a reference in the converted schema.
func (s *converter) pointer(ref, base string) string {
	if at, ok := s.named[ref]; ok {
		return upgradePointer(at)
	}
	if ref == "#" {
		return upgradePointer(base)
	}
	if len(ref) > 1 && ref[:2] == "#/" {
		if fragment, err := url.PathUnescape(ref[1:]); err == nil {
			return upgradePointer(base + fragment)
		}
	}
	return "?"
}

// maxReferences is the maximum length of a chain of references before a schema.
const maxReferences = 32

// dropDangling removes references without a target, and those that only refer to each other. Such a schema allows
// anything.
func (s *converter) dropDangling() {
	for _, r := range s.refs {
		next, steps := r, 0
		for ; next != nil && steps <= maxReferences; steps++ {
			target, ok := s.resolve(next.to)
			if !ok {
				steps = maxReferences
				continue
			}
			next, _ = target[refKeyword].(*reference)
		}
		if steps > maxReferences {
			delete(r.in, refKeyword)
		}
	}
}

// write replaces the references by references of the document.
func (s *converter) write() {
	for _, r := range s.refs {
		switch {
		case strings.HasSuffix(r.to, "/"+defsKeyword): // all definitions are no schema
			delete(r.in, refKeyword)
		case r.in[refKeyword] != nil:
			r.in[refKeyword] = s.uri(r.to)
		}
	}
}
