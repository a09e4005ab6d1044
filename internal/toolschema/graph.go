package toolschema

import (
	"fmt"
	"strings"

	"github.com/santhosh-tekuri/jsonschema/v6"

	"github.com/capgate/capgate/internal/lib/strictjson"
)

const (
	// maxApplied is against how many subschemas one value may have to be checked. References and
	// combinations multiply: twenty lines of them make a million.
	maxApplied = 5000
	// maxChain is how many subschemas may apply each other to the same value, one after the other.
	maxChain = 200
)

// graph is what is found out about the subschemas of a schema when it is compiled.
type graph struct {
	about map[*jsonschema.Schema]*about
	base  string // of the document
	// spelled are the names of properties that are declared in more than one case, folded.
	spelled map[string]string
	doubled map[string]bool
	dynamic bool // a reference depends on the way to it
	foreign bool // there is more than one document
}

// about is what is known of one subschema.
type about struct {
	applied int  // how many are applied to a value with it; 0: not known yet
	chain   int  // the longest way among them
	open    bool // being found out
	// folded has the names of its properties, folded.
	folded map[string]string
}

// survey finds out what a schema costs, and refuses one that costs too much.
func survey(root *jsonschema.Schema) (*graph, error) {
	base, _, _ := strings.Cut(root.Location, "#")
	g := &graph{about: map[*jsonschema.Schema]*about{}, base: base, spelled: map[string]string{}, doubled: map[string]bool{}}
	todo := []*jsonschema.Schema{root}
	for len(todo) > 0 {
		s := todo[len(todo)-1]
		todo = todo[:len(todo)-1]
		if s == nil || g.about[s] != nil {
			continue
		}
		g.about[s] = g.look(s, s == root)
		todo = append(append(todo, inPlace(s)...), below(s)...)
	}
	if g.dynamic && g.foreign {
		return nil, &costlyError{"it has a $dynamicRef or $recursiveRef and more than one $id; write it as one document, with $ref"}
	}
	for s := range g.about {
		if err := g.weigh(s); err != nil {
			return nil, err
		}
	}
	return g, nil
}

// look notes what is in a subschema itself.
func (g *graph) look(s *jsonschema.Schema, root bool) *about {
	a := &about{}
	if document, _, _ := strings.Cut(s.Location, "#"); document != g.base || s.ID != "" && !root && !strings.HasPrefix(s.ID, "#") {
		g.foreign = true
	}
	g.dynamic = g.dynamic || s.DynamicRef != nil || s.RecursiveRef != nil
	if len(s.Properties) > 0 {
		a.folded = make(map[string]string, len(s.Properties))
	}
	for name := range s.Properties {
		folded := strictjson.Fold(name)
		a.folded[folded] = name
		if other, there := g.spelled[folded]; there && other != name {
			g.doubled[folded] = true
		}
		g.spelled[folded] = name
	}
	return a
}

// weigh counts what a subschema applies to the same value.
func (g *graph) weigh(s *jsonschema.Schema) error {
	a := g.about[s]
	switch {
	case a.applied > 0:
		return nil
	case a.open:
		return &costlyError{"a subschema applies itself to the same value, by $ref or a combination, without end"}
	}
	a.open = true
	applied, chain := 1+len(s.PatternProperties), 0
	for _, sub := range inPlace(s) {
		if err := g.weigh(sub); err != nil {
			return err
		}
		applied += g.about[sub].applied
		if chain = max(chain, g.about[sub].chain); applied > maxApplied || chain >= maxChain {
			return &costlyError{fmt.Sprintf("one value would be checked against more than %d subschemas; "+
				"repeat fewer of them by $ref, allOf, anyOf and oneOf", min(maxApplied, max(applied-1, chain)))}
		}
	}
	a.open, a.applied, a.chain = false, applied, chain+1
	return nil
}

// inPlace are the subschemas that are applied to the same value.
func inPlace(s *jsonschema.Schema) []*jsonschema.Schema {
	all := []*jsonschema.Schema{s.Ref, s.RecursiveRef, s.Not, s.If, s.Then, s.Else}
	if s.DynamicRef != nil {
		all = append(all, s.DynamicRef.Ref)
	}
	for _, list := range [][]*jsonschema.Schema{s.AllOf, s.AnyOf, s.OneOf} {
		all = append(all, list...)
	}
	for _, sub := range s.DependentSchemas {
		all = append(all, sub)
	}
	for _, sub := range s.Dependencies {
		if sub, is := sub.(*jsonschema.Schema); is {
			all = append(all, sub)
		}
	}
	return compact(all)
}

// below are those that are applied to what is in the value.
func below(s *jsonschema.Schema) []*jsonschema.Schema {
	all := []*jsonschema.Schema{s.PropertyNames, s.UnevaluatedProperties, s.UnevaluatedItems, s.Contains, s.Items2020}
	for _, sub := range []any{s.AdditionalProperties, s.AdditionalItems, s.Items} {
		switch sub := sub.(type) {
		case *jsonschema.Schema:
			all = append(all, sub)
		case []*jsonschema.Schema:
			all = append(all, sub...)
		}
	}
	all = append(all, s.PrefixItems...)
	for _, sub := range s.Properties {
		all = append(all, sub)
	}
	for _, sub := range s.PatternProperties {
		all = append(all, sub)
	}
	return compact(all)
}

func compact(all []*jsonschema.Schema) []*jsonschema.Schema {
	n := 0
	for _, s := range all {
		if s != nil {
			all[n] = s
			n++
		}
	}
	return all[:n]
}
