package toolschema

import (
	"maps"
	"slices"

	"github.com/santhosh-tekuri/jsonschema/v6"
	"github.com/santhosh-tekuri/jsonschema/v6/kind"

	"github.com/capgate/capgate/internal/lib/nearest"
	"github.com/capgate/capgate/internal/lib/strictjson"
	"github.com/capgate/capgate/internal/lib/untrusted"
)

// members checks the rules for an object.
func (c *checker) members(s *jsonschema.Schema, v strictjson.Value, m *evaluated) bool {
	if v.Kind() != strictjson.Object {
		return true
	}
	ok, n := true, v.Len()
	if s.MinProperties != nil && n < *s.MinProperties {
		ok = c.fail(&kind.MinProperties{Got: n, Want: *s.MinProperties})
	}
	if s.MaxProperties != nil && n > *s.MaxProperties {
		ok = c.fail(&kind.MaxProperties{Got: n, Want: *s.MaxProperties})
	}
	if missing := c.missing(v, s.Required); missing != nil {
		ok = c.fail(&kind.Required{Missing: missing})
	}
	if !ok && (c.quiet > 0 || c.done()) {
		return false
	}
	return c.each(s, v, m) && c.names(s, v) && c.dependent(s, v, m) && ok
}

// each checks the members of an object by the rules for their names.
func (c *checker) each(s *jsonschema.Schema, v strictjson.Value, m *evaluated) bool {
	if s.Properties == nil && s.PatternProperties == nil && s.AdditionalProperties == nil {
		return true
	}
	ok, i := true, -1
	for name, member := range v.Members() {
		i++
		if !c.spend(0) || !ok && (c.quiet > 0 || c.done()) {
			return false
		}
		applies, valid, allowed := c.member(s, name, member)
		if !allowed {
			valid = c.undeclared(s, name.Bytes())
		}
		ok = ok && valid
		if applies {
			m.set(i)
		}
	}
	return ok
}

// maxNamed is the maximum length of the name of a forbidden member in a pointer, in bytes.
const maxNamed = 100

// undeclared records that the schema of an object does not allow a name, and returns false.
func (c *checker) undeclared(s *jsonschema.Schema, name []byte) bool {
	if c.quiet > 0 || c.done() {
		return false
	}
	text := untrusted.Clip(string(name), maxNamed)
	c.path = append(c.path, segment{name: []byte(text)})
	c.found = append(c.found, Violation{Pointer: c.pointer(),
		Reason: short("is not a property that is allowed" +
			nearest.Hint(text, slices.Sorted(maps.Keys(s.Properties))))})
	c.path = c.path[:len(c.path)-1]
	return false
}

// member checks one member. applies reports whether a rule applies to its name.
func (c *checker) member(s *jsonschema.Schema, name, v strictjson.Value) (applies, valid, allowed bool) {
	text := name.Bytes()
	at := segment{name: text}
	valid, allowed = true, true
	sub, declared := s.Properties[string(text)]
	if declared {
		applies, valid = true, c.at(at, sub, v)
	}
	if s.Properties != nil && !c.exactNames {
		c.checkCase(s, name, declared)
	}
	for re, sub := range s.PatternProperties {
		if _, is := re.(uncheckedPattern); is { // the member may be one of those, which is all that is known
			applies = true
			c.assumed++
		} else if c.matches(re, text) {
			applies, valid = true, c.at(at, sub, v) && valid
		}
	}
	if applies || s.AdditionalProperties == nil {
		return applies, valid, true
	}
	switch additional := s.AdditionalProperties.(type) {
	case bool:
		allowed = additional
	case *jsonschema.Schema:
		valid = c.at(at, additional, v)
	}
	return true, valid, allowed
}

// checkCase records a name that is declared only in another case, unless the same object has the declared name, too.
func (c *checker) checkCase(s *jsonschema.Schema, name strictjson.Value, declared bool) {
	if declared && len(c.graph.ambiguous) == 0 {
		return
	}
	folded := strictjson.Fold(string(name.Bytes()))
	other, there := c.graph.subschemas[s].folded[folded]
	switch {
	case declared && c.graph.ambiguous[folded]:
		if c.exact == nil {
			c.exact = map[int]bool{}
		}
		c.exact[name.Index()] = true
		delete(c.ambiguous, name.Index())
	case !declared && there && !c.exact[name.Index()]:
		if c.ambiguous == nil {
			c.ambiguous = map[int]string{}
		}
		if c.ambiguous[name.Index()] = other; !c.graph.ambiguous[folded] && c.stopped == nil {
			c.stopped = &AmbiguousNameError{Declared: other}
		}
	}
}

// names checks the rules for an object's names.
func (c *checker) names(s *jsonschema.Schema, v strictjson.Value) bool {
	if s.PropertyNames == nil {
		return true
	}
	for name := range v.Members() {
		if !c.valid(s.PropertyNames, name, nil) {
			return c.fail(&kind.PropertyNames{})
		}
	}
	return true
}

// dependent checks the rules for an object that has a given member.
func (c *checker) dependent(s *jsonschema.Schema, v strictjson.Value, m *evaluated) bool {
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
	return missing == nil || c.fail(&kind.DependentRequired{Prop: name, Missing: missing})
}

func (c *checker) has(v strictjson.Value, name string) bool {
	if !c.spend(v.Len() / 4) {
		return false
	}
	_, there := v.Get(name)
	return there
}

// maxMissing bounds the list of missing names.
const maxMissing = 20

// someMissing replaces the list where violations are not recorded.
var someMissing = []string{""}

func (c *checker) missing(v strictjson.Value, names []string) (missing []string) {
	for _, name := range names {
		if c.has(v, name) {
			continue
		}
		if c.quiet > 0 {
			return someMissing
		}
		if missing = append(missing, name); len(missing) == maxMissing {
			return missing
		}
	}
	return missing
}

// elements checks the rules for an array.
func (c *checker) elements(s *jsonschema.Schema, v strictjson.Value, m *evaluated) bool {
	if v.Kind() != strictjson.Array {
		return true
	}
	ok, n := true, v.Len()
	if s.MinItems != nil && n < *s.MinItems {
		ok = c.fail(&kind.MinItems{Got: n, Want: *s.MinItems})
	}
	if s.MaxItems != nil && n > *s.MaxItems {
		ok = c.fail(&kind.MaxItems{Got: n, Want: *s.MaxItems})
	}
	if s.UniqueItems && n > 1 && (ok || c.quiet == 0) {
		if i, j, twice := c.duplicates(v); twice {
			ok = c.fail(&kind.UniqueItems{Duplicates: [2]int{i, j}})
		}
	}
	if !ok && (c.quiet > 0 || c.done()) {
		return false
	}
	return c.items(s, v, m) && c.contains(s, v, m) && ok
}

// itemsOf returns the subschemas of the first elements and of all others; nil: no rule. closed: no others are
// allowed.
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

func (c *checker) items(s *jsonschema.Schema, v strictjson.Value, m *evaluated) bool {
	first, rest, closed := itemsOf(s)
	if closed && v.Len() > len(first) {
		return c.fail(&kind.AdditionalItems{Count: v.Len() - len(first)})
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
		if !ok && (c.quiet > 0 || c.done()) {
			return false
		}
		ok = c.at(segment{index: i}, sub, e) && ok
		m.set(i)
	}
	return ok
}

func (c *checker) contains(s *jsonschema.Schema, v strictjson.Value, m *evaluated) bool {
	if s.Contains == nil {
		return true
	}
	var matched []int
	before := c.assumed
	for i, e := range v.Elements() {
		if c.stopped != nil {
			return false
		}
		if c.valid(s.Contains, e, nil) {
			if matched = append(matched, i); s.DraftVersion >= 2020 {
				m.set(i)
			}
		}
	}
	ok := true
	switch {
	case s.MinContains != nil && len(matched) < *s.MinContains:
		ok = c.fail(&kind.MinContains{Got: matched, Want: *s.MinContains})
	case s.MinContains == nil && len(matched) == 0:
		ok = c.fail(&kind.Contains{})
	}
	if s.MaxContains != nil && len(matched) > *s.MaxContains && c.assumed == before {
		ok = c.fail(&kind.MaxContains{Got: matched, Want: *s.MaxContains})
	}
	return ok
}

// unevaluated checks the members and elements to which no other rule applied.
func (c *checker) unevaluated(s *jsonschema.Schema, v strictjson.Value, m *evaluated) bool {
	ok := true
	if sub := s.UnevaluatedProperties; sub != nil && v.Kind() == strictjson.Object {
		i := -1
		for name, member := range v.Members() {
			if i++; !m.has(i) {
				ok = c.at(segment{name: name.Bytes()}, sub, member) && ok
				m.set(i)
			}
			if !ok && (c.quiet > 0 || c.done()) {
				return false
			}
		}
	}
	if sub := s.UnevaluatedItems; sub != nil && v.Kind() == strictjson.Array {
		for i, e := range v.Elements() {
			if !m.has(i) {
				ok = c.at(segment{index: i}, sub, e) && ok
				m.set(i)
			}
			if !ok && (c.quiet > 0 || c.done()) {
				return false
			}
		}
	}
	return ok
}
