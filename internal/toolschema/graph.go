package toolschema

import (
	"fmt"
	"strings"

	"github.com/santhosh-tekuri/jsonschema/v6"

	"github.com/capgate/capgate/internal/lib/strictjson"
)

const (
	// maxApplied bounds the subschemas that one value is checked against. References and combinations multiply: twenty
	// lines of them make a million.
	maxApplied = 5000
	// maxChain bounds the chain of subschemas that apply each other to the same value.
	maxChain = 200
)

// graph has the properties of a schema's subschemas, computed when it is compiled.
type graph struct {
	subschemas map[*jsonschema.Schema]*subschema
	base       string // of the document
	// spelled are the names of properties that are declared in more than one case, folded.
	spelled   map[string]string
	ambiguous map[string]bool
	dynamic   bool // a reference depends on its dynamic scope
	foreign   bool // it has more than one document
}

// subschema has the properties of one subschema.
type subschema struct {
	applied int  // number of subschemas applied to its value; 0: not known yet
	chain   int  // the maxReason way among them
	open    bool // being computed
	// folded has the names of its properties by their folded form.
	folded map[string]string
}

// survey computes the cost of a schema, and rejects one that costs too much.
func survey(root *jsonschema.Schema) (*graph, error) {
	base, _, _ := strings.Cut(root.Location, "#")
	g := &graph{subschemas: map[*jsonschema.Schema]*subschema{}, base: base, spelled: map[string]string{},
		ambiguous: map[string]bool{}}
	todo := []*jsonschema.Schema{root}
	for len(todo) > 0 {
		s := todo[len(todo)-1]
		todo = todo[:len(todo)-1]
		if s == nil || g.subschemas[s] != nil {
			continue
		}
		g.subschemas[s] = g.inspect(s, s == root)
		todo = append(append(todo, sameValueSubschemas(s)...), childSubschemas(s)...)
	}
	if g.dynamic && g.foreign {
		return nil, &costlyError{"it has a $dynamicRef or $recursiveRef and more than one $id; " +
			"write it as one document, with $ref"}
	}
	for s := range g.subschemas {
		if err := g.cost(s); err != nil {
			return nil, err
		}
	}
	return g, nil
}

// inspect records the properties of one subschema by itself.
func (g *graph) inspect(s *jsonschema.Schema, root bool) *subschema {
	a := &subschema{}
	if document, _, _ := strings.Cut(s.Location, "#"); document != g.base || s.ID != "" && !root &&
		!strings.HasPrefix(s.ID, "#") {
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
			g.ambiguous[folded] = true
		}
		g.spelled[folded] = name
	}
	return a
}

// cost counts the subschemas that a subschema applies to the same value.
func (g *graph) cost(s *jsonschema.Schema) error {
	a := g.subschemas[s]
	switch {
	case a.applied > 0:
		return nil
	case a.open:
		return &costlyError{"a subschema applies itself to the same value, by $ref or a combination, without end"}
	}
	a.open = true
	applied, chain := 1+len(s.PatternProperties), 0
	for _, sub := range sameValueSubschemas(s) {
		if err := g.cost(sub); err != nil {
			return err
		}
		applied += g.subschemas[sub].applied
		if chain = max(chain, g.subschemas[sub].chain); applied > maxApplied || chain >= maxChain {
			return &costlyError{fmt.Sprintf("one value would be checked against more than %d subschemas; "+
				"repeat fewer of them by $ref, allOf, anyOf and oneOf", min(maxApplied, max(applied-1, chain)))}
		}
	}
	a.open, a.applied, a.chain = false, applied, chain+1
	return nil
}

// sameValueSubschemas returns the subschemas that are applied to the same value.
func sameValueSubschemas(s *jsonschema.Schema) []*jsonschema.Schema {
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

// childSubschemas returns the subschemas that apply to members and elements of the value.
func childSubschemas(s *jsonschema.Schema) []*jsonschema.Schema {
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
