package toolschema

import (
	"github.com/santhosh-tekuri/jsonschema/v6"
	"github.com/santhosh-tekuri/jsonschema/v6/kind"

	"github.com/capgate/capgate/internal/lib/strictjson"
)

// members is what is asked of an object.
func (c *checker) members(s *jsonschema.Schema, v strictjson.Value, m *marks) bool {
	if v.Kind() != strictjson.Object {
		return true
	}
	ok, n := true, v.Len()
	if s.MinProperties != nil && n < *s.MinProperties {
		ok = c.wrong(&kind.MinProperties{Got: n, Want: *s.MinProperties})
	}
	if s.MaxProperties != nil && n > *s.MaxProperties {
		ok = c.wrong(&kind.MaxProperties{Got: n, Want: *s.MaxProperties})
	}
	if missing := c.missing(v, s.Required); missing != nil {
		ok = c.wrong(&kind.Required{Missing: missing})
	}
	if !ok && (c.quiet > 0 || c.over()) {
		return false
	}
	return c.each(s, v, m) && c.names(s, v) && c.dependent(s, v, m) && ok
}

// each checks the members of an object, each against what is said of its name.
func (c *checker) each(s *jsonschema.Schema, v strictjson.Value, m *marks) bool {
	if s.Properties == nil && s.PatternProperties == nil && s.AdditionalProperties == nil {
		return true
	}
	ok, i, extra := true, -1, 0
	for name, member := range v.Members() {
		i++
		if !c.pay(0) || !ok && (c.quiet > 0 || c.over()) {
			return false
		}
		said, valid, allowed := c.member(s, name, member)
		ok = ok && valid
		if !allowed {
			extra++
		}
		if said {
			m.set(i)
		}
	}
	if extra > 0 {
		return c.wrong(&kind.AdditionalProperties{Properties: make([]string, extra)})
	}
	return ok
}

// member checks one member. said tells that something is said of its name.
func (c *checker) member(s *jsonschema.Schema, name, v strictjson.Value) (said, valid, allowed bool) {
	text := name.Bytes()
	at := place{name: text}
	valid, allowed = true, true
	sub, declared := s.Properties[string(text)]
	if declared {
		said, valid = true, c.at(at, sub, v)
	}
	if s.Properties != nil {
		c.spelling(s, name, declared)
	}
	for re, sub := range s.PatternProperties {
		if c.matches(re, text) {
			said, valid = true, c.at(at, sub, v) && valid
		}
	}
	if said || s.AdditionalProperties == nil {
		return said, valid, true
	}
	switch additional := s.AdditionalProperties.(type) {
	case bool:
		allowed = additional
	case *jsonschema.Schema:
		valid = c.at(at, additional, v)
	}
	return true, valid, allowed
}

// spelling notes a name that is declared in another case alone, unless it is declared, too.
func (c *checker) spelling(s *jsonschema.Schema, name strictjson.Value, declared bool) {
	if declared && len(c.graph.doubled) == 0 {
		return
	}
	folded := strictjson.Fold(string(name.Bytes()))
	other, there := c.graph.about[s].folded[folded]
	switch {
	case declared && c.graph.doubled[folded]:
		if c.exact == nil {
			c.exact = map[int]bool{}
		}
		c.exact[name.Index()] = true
		delete(c.odd, name.Index())
	case !declared && there && !c.exact[name.Index()]:
		if c.odd == nil {
			c.odd = map[int]string{}
		}
		if c.odd[name.Index()] = other; !c.graph.doubled[folded] && c.stopped == nil {
			c.stopped = &AmbiguousNameError{Declared: other}
		}
	}
}

// names is what is asked of an object's names.
func (c *checker) names(s *jsonschema.Schema, v strictjson.Value) bool {
	if s.PropertyNames == nil {
		return true
	}
	for name := range v.Members() {
		if !c.quietly(s.PropertyNames, name, nil) {
			return c.wrong(&kind.PropertyNames{})
		}
	}
	return true
}

// dependent is what is asked of an object that has some member.
func (c *checker) dependent(s *jsonschema.Schema, v strictjson.Value, m *marks) bool {
	ok := true
	for name, sub := range s.Dependencies {
		switch sub := sub.(type) {
		case []string:
			ok = c.requires(v, name, sub) && ok
		case *jsonschema.Schema:
			ok = (!c.has(v, name) || c.sub(sub, v, m)) && ok
		}
	}
	for name, others := range s.DependentRequired {
		ok = c.requires(v, name, others) && ok
	}
	for name, sub := range s.DependentSchemas {
		ok = (!c.has(v, name) || c.sub(sub, v, m)) && ok
	}
	return ok
}

func (c *checker) requires(v strictjson.Value, name string, others []string) bool {
	if !c.has(v, name) {
		return true
	}
	missing := c.missing(v, others)
	return missing == nil || c.wrong(&kind.DependentRequired{Prop: name, Missing: missing})
}

func (c *checker) has(v strictjson.Value, name string) bool {
	if !c.pay(v.Len() / 4) {
		return false
	}
	_, there := v.Get(name)
	return there
}

// mostMissing is how many names are listed that are missing.
const mostMissing = 20

// someMissing stands for them where nobody asks.
var someMissing = []string{""}

func (c *checker) missing(v strictjson.Value, names []string) (missing []string) {
	for _, name := range names {
		if c.has(v, name) {
			continue
		}
		if c.quiet > 0 {
			return someMissing
		}
		if missing = append(missing, name); len(missing) == mostMissing {
			return missing
		}
	}
	return missing
}

// elements is what is asked of an array.
func (c *checker) elements(s *jsonschema.Schema, v strictjson.Value, m *marks) bool {
	if v.Kind() != strictjson.Array {
		return true
	}
	ok, n := true, v.Len()
	if s.MinItems != nil && n < *s.MinItems {
		ok = c.wrong(&kind.MinItems{Got: n, Want: *s.MinItems})
	}
	if s.MaxItems != nil && n > *s.MaxItems {
		ok = c.wrong(&kind.MaxItems{Got: n, Want: *s.MaxItems})
	}
	if s.UniqueItems && n > 1 && (ok || c.quiet == 0) {
		if i, j, twice := c.twice(v); twice {
			ok = c.wrong(&kind.UniqueItems{Duplicates: [2]int{i, j}})
		}
	}
	if !ok && (c.quiet > 0 || c.over()) {
		return false
	}
	return c.items(s, v, m) && c.contains(s, v, m) && ok
}

// itemsOf are the subschemas of the first elements, and of all others; nil: of these nothing
// is said. closed: there may be no others.
func itemsOf(s *jsonschema.Schema) (first []*jsonschema.Schema, rest *jsonschema.Schema, closed bool) {
	if s.DraftVersion >= 2020 {
		return s.PrefixItems, s.Items2020, false
	}
	switch items := s.Items.(type) {
	case *jsonschema.Schema:
		return nil, items, false
	case []*jsonschema.Schema:
		first = items
	}
	switch additional := s.AdditionalItems.(type) {
	case *jsonschema.Schema:
		return first, additional, false
	case bool:
		return first, nil, !additional
	}
	return first, nil, false
}

func (c *checker) items(s *jsonschema.Schema, v strictjson.Value, m *marks) bool {
	first, rest, closed := itemsOf(s)
	if closed && v.Len() > len(first) {
		return c.wrong(&kind.AdditionalItems{Count: v.Len() - len(first)})
	}
	if first == nil && rest == nil {
		return true
	}
	ok := true
	for i, e := range v.Elements() {
		sub := rest
		if i < len(first) {
			sub = first[i]
		}
		if sub == nil {
			break
		}
		if !ok && (c.quiet > 0 || c.over()) {
			return false
		}
		ok = c.at(place{index: i}, sub, e) && ok
		m.set(i)
	}
	return ok
}

func (c *checker) contains(s *jsonschema.Schema, v strictjson.Value, m *marks) bool {
	if s.Contains == nil {
		return true
	}
	var matched []int
	for i, e := range v.Elements() {
		if c.stopped != nil {
			return false
		}
		if c.quietly(s.Contains, e, nil) {
			if matched = append(matched, i); s.DraftVersion >= 2020 {
				m.set(i)
			}
		}
	}
	ok := true
	switch {
	case s.MinContains != nil && len(matched) < *s.MinContains:
		ok = c.wrong(&kind.MinContains{Got: matched, Want: *s.MinContains})
	case s.MinContains == nil && len(matched) == 0:
		ok = c.wrong(&kind.Contains{})
	}
	if s.MaxContains != nil && len(matched) > *s.MaxContains {
		ok = c.wrong(&kind.MaxContains{Got: matched, Want: *s.MaxContains})
	}
	return ok
}

// unevaluated checks what nothing else has said anything of.
func (c *checker) unevaluated(s *jsonschema.Schema, v strictjson.Value, m *marks) bool {
	ok := true
	if sub := s.UnevaluatedProperties; sub != nil && v.Kind() == strictjson.Object {
		i := -1
		for name, member := range v.Members() {
			if i++; !m.has(i) {
				ok = c.at(place{name: name.Bytes()}, sub, member) && ok
				m.set(i)
			}
			if !ok && (c.quiet > 0 || c.over()) {
				return false
			}
		}
	}
	if sub := s.UnevaluatedItems; sub != nil && v.Kind() == strictjson.Array {
		for i, e := range v.Elements() {
			if !m.has(i) {
				ok = c.at(place{index: i}, sub, e) && ok
				m.set(i)
			}
			if !ok && (c.quiet > 0 || c.over()) {
				return false
			}
		}
	}
	return ok
}
