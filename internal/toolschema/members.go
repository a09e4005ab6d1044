package toolschema

import (
	"context"

	"github.com/santhosh-tekuri/jsonschema/v6"

	"github.com/capgate/capgate/internal/lib/strictjson"
)

// CheckMembers checks a part of the arguments: the members of an object, each by what the top of the schema says about
// its name. Other members may be missing. A name that no part of the schema declares is a violation, unless
// additionalProperties permits it. The errors are those of Check.
func (s *Schema) CheckMembers(ctx context.Context, part []byte) error {
	r := strictjson.Get()
	defer r.Release()
	if err := r.Read(part, strictjson.Options{Keep: true, Fold: true, Values: MaxValues}); err != nil {
		return err
	}
	if s == nil || s.compiled == nil || r.Root().Kind() != strictjson.Object {
		return nil
	}
	top := s.compiled
	c := &checker{ctx: ctx, graph: s.graph, left: maxSteps + min(len(part), stepsForSize)}
	valid := c.each(top, r.Root(), nil)
	for name, value := range r.Root().Members() {
		if !declaresAll(top) || c.stopped != nil {
			break
		}
		c.quiet++
		applies, _, _ := c.member(top, name, value)
		c.quiet--
		if !applies {
			valid = c.undeclared(top, name.Bytes())
		}
	}
	return c.conclusion(valid)
}

// declaresAll reports whether the names that a schema permits are all in its own properties and patternProperties.
func declaresAll(s *jsonschema.Schema) bool {
	return s.Properties != nil && s.AdditionalProperties == nil && s.UnevaluatedProperties == nil && s.Ref == nil &&
		s.DynamicRef == nil && s.RecursiveRef == nil && s.If == nil && s.DependentSchemas == nil &&
		s.Dependencies == nil && len(s.AllOf)+len(s.AnyOf)+len(s.OneOf) == 0
}
