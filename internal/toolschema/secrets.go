package toolschema

import (
	"bytes"
	"strings"
)

// Secrets is the part of a schema that applies to one value. It determines whether the value is a secret. nil stands
// for a value without a schema. It is immutable.
type Secrets struct {
	root map[string]any
	all  []map[string]any // the subschemas that apply, or may apply, to the value
}

// Bounds of a walk.
const (
	maxParts = 64 // subschemas that apply to one value
	maxRefs  = 32 // references and combinations in a row
)

// Secrets returns what the schema says of secrets in the value that it describes.
func (s *Schema) Secrets() *Secrets {
	if s == nil {
		return nil
	}
	return s.secrets
}

func secretsOf(doc any, text []byte) *Secrets {
	next := &Secrets{}
	if bytes.Contains(text, []byte(`"writeOnly"`)) || bytes.Contains(text, []byte(`"password"`)) {
		next.root, _ = doc.(map[string]any)
		next.apply(doc, 0)
	}
	return next
}

// Secret reports whether the value is a secret: writeOnly, or of the format password.
func (s *Secrets) Secret() bool {
	if s == nil {
		return false
	}
	for _, of := range s.all {
		if of["writeOnly"] == true || of["format"] == "password" {
			return true
		}
	}
	return false
}

// Member returns what the schema says of a member of the value, which is an object.
func (s *Secrets) Member(name string) *Secrets {
	return s.step(func(of map[string]any, next *Secrets) {
		properties, _ := of["properties"].(map[string]any)
		own, named := properties[name]
		next.apply(own, 0)
		patterns, _ := of["patternProperties"].(map[string]any)
		for pattern, schema := range patterns {
			p, err := compilePattern(pattern)
			unknown := err != nil || p == nil
			if unknown || p.MatchString(name) {
				next.apply(schema, 0)
				named = named || !unknown
			}
		}
		if !named {
			next.apply(of["additionalProperties"], 0)
		}
	})
}

// Item returns what the schema says of an item of the value, which is an array.
func (s *Secrets) Item(i int) *Secrets {
	return s.step(func(of map[string]any, next *Secrets) {
		first, _ := of["prefixItems"].([]any)
		rest := of["items"]
		if tuple, is := rest.([]any); is { // of an older draft
			first, rest = tuple, of["additionalItems"]
		}
		if i < len(first) {
			next.apply(first[i], 0)
			return
		}
		next.apply(rest, 0)
	})
}

func (s *Secrets) step(take func(of map[string]any, next *Secrets)) *Secrets {
	if s == nil || len(s.all) == 0 {
		return nil
	}
	next := &Secrets{root: s.root}
	for _, of := range s.all {
		take(of, next)
	}
	return next
}

// apply adds a subschema, and the subschemas that it refers to or combines.
func (s *Secrets) apply(schema any, depth int) {
	of, is := schema.(map[string]any)
	if !is || depth > maxRefs || len(s.all) >= maxParts {
		return
	}
	s.all = append(s.all, of)
	if ref, ok := of["$ref"].(string); ok {
		s.apply(s.find(ref), depth+1)
	}
	for _, word := range []string{"allOf", "anyOf", "oneOf"} {
		parts, _ := of[word].([]any)
		for _, part := range parts {
			s.apply(part, depth+1)
		}
	}
	for _, word := range []string{"then", "else"} {
		s.apply(of[word], depth+1)
	}
}

// find returns the subschema at a JSON pointer, as in #/$defs/key; nil if there is none.
func (s *Secrets) find(ref string) any {
	path, is := strings.CutPrefix(ref, "#")
	if !is {
		return nil
	}
	var at any = s.root
	for name := range strings.SplitSeq(strings.TrimPrefix(path, "/"), "/") {
		if path == "" {
			break
		}
		object, _ := at.(map[string]any)
		at = object[strings.NewReplacer("~1", "/", "~0", "~").Replace(name)]
	}
	return at
}
