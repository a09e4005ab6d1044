package openapi

import (
	"net/url"
	"strconv"
)

const (
	refKeyword = "$ref"

	maxSchema = 128 << 10 // bytes of one tool's
	maxWeight = 20_000    // of one tool's
)

// schemaOf is the input_schema of a tool as the component of that name. One that is too large
// becomes a schema of any object.
func schemaOf(component string, input map[string]any) any {
	s := &shaping{component: component, named: map[string]string{}}
	s.find(input, "")
	s.root = s.shape(input, place{})
	s.settle()
	weight := s.weigh()
	s.write()
	if text, err := encode(s.root); err != nil || len(text) > maxSchema || weight > maxWeight {
		return map[string]any{"type": "object",
			"description": "The schema is too large to be shown here. The list of the capability's tools has it."}
	}
	if s.root["type"] == nil && s.root[refKeyword] == nil {
		s.root["type"] = "object" // which arguments are, whatever their schema says
	}
	return s.root
}

// shaping is the work on one schema.
type shaping struct {
	component string
	named     map[string]string // what a reference may say instead of a pointer ─► the pointer
	refs      []*reference
	root      map[string]any
}

// reference is one that the shaped schema has.
type reference struct {
	in map[string]any
	to string // pointer; "?" where it leads out of the schema
}

// place is where something is in the schema as it came, as JSON pointers (RFC 6901).
type place struct {
	at   string
	base string // the resource around it, to which its references are relative (JSON Schema 2020-12 §8.2)
}

func (p place) below(names ...string) place {
	for _, name := range names {
		p.at += "/" + escape(name)
	}
	return p
}

// find looks for the names that references may use.
func (s *shaping) find(v any, at string) {
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
			s.find(child, at+"/"+escape(name))
		}
	case []any:
		for i, child := range v {
			s.find(child, at+"/"+strconv.Itoa(i))
		}
	}
}

// shape makes the copy of a schema that a document has.
func (s *shaping) shape(v any, p place) map[string]any {
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
	old = today(old)
	for keyword, value := range old {
		if shaped := s.value(keywords[keyword], keyword, value, p); shaped != nil {
			now[keyword] = shaped
		}
	}
	if ref, ok := old[refKeyword].(string); ok {
		r := &reference{in: now, to: s.pointer(ref, p.base)}
		now[refKeyword] = r // until all are known
		s.refs = append(s.refs, r)
	}
	return now
}

// value is what becomes of a keyword's; nil: nothing.
func (s *shaping) value(k kind, keyword string, value any, p place) any {
	switch k {
	case data:
		if !refers(value) {
			return value
		}
	case text:
		if t, ok := value.(string); ok {
			return plain(t)
		}
	case schema:
		if closed, ok := value.(bool); ok && keyword == "additionalProperties" {
			return closed
		}
		return s.shape(value, p.below(keyword))
	case schemas:
		old, _ := value.([]any)
		now := make([]any, len(old))
		for i, child := range old {
			now[i] = s.shape(child, p.below(keyword, strconv.Itoa(i)))
		}
		return now
	case schemaMap:
		old, _ := value.(map[string]any)
		now := make(map[string]any, len(old))
		for name, child := range old {
			now[name] = s.shape(child, p.below(keyword, name))
		}
		return now
	}
	return nil
}

// pointer is where a reference leads, in the shaped schema.
func (s *shaping) pointer(ref, base string) string {
	if at, ok := s.named[ref]; ok {
		return modern(at)
	}
	if ref == "#" {
		return modern(base)
	}
	if len(ref) > 1 && ref[:2] == "#/" {
		if fragment, err := url.PathUnescape(ref[1:]); err == nil {
			return modern(base + fragment)
		}
	}
	return "?"
}

// chain is how many references may lead to each other before one leads to a schema.
const chain = 32

// settle removes references that lead nowhere, or only to each other: anything is allowed there.
func (s *shaping) settle() {
	for _, r := range s.refs {
		next, steps := r, 0
		for ; next != nil && steps <= chain; steps++ {
			target, ok := s.follow(next.to)
			if !ok {
				steps = chain
				continue
			}
			next, _ = target[refKeyword].(*reference)
		}
		if steps > chain {
			delete(r.in, refKeyword)
		}
	}
}

// write makes the references those of a document.
func (s *shaping) write() {
	for _, r := range s.refs {
		if r.in[refKeyword] != nil {
			r.in[refKeyword] = s.uri(r.to)
		}
	}
}
