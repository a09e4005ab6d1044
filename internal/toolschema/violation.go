package toolschema

import (
	"fmt"
	"math/big"
	"slices"
	"strings"

	"github.com/santhosh-tekuri/jsonschema/v6"
	"github.com/santhosh-tekuri/jsonschema/v6/kind"
	"golang.org/x/text/language"
	"golang.org/x/text/message"

	"github.com/capgate/capgate/internal/lib/jsonpointer"
	"github.com/capgate/capgate/internal/lib/untrusted"
)

// Violation is a rule of a schema that arguments violate. More has others, MaxViolations in all.
type Violation struct {
	Pointer string // a JSON pointer (RFC 6901); "": the root
	Reason  string // the rule, without the value
	More    []Violation
}

// Error lists all violations.
func (v *Violation) Error() string {
	var b strings.Builder
	fmt.Fprintf(&b, "at %q: %s", v.Pointer, v.Reason)
	for i := range v.More {
		fmt.Fprintf(&b, "; at %q: %s", v.More[i].Pointer, v.More[i].Reason)
	}
	return b.String()
}

// maxReason bounds a reason: a schema may list thousands of values.
const maxReason = 300

// violation returns the deepest first cause of an error of a schema itself.
func violation(e *jsonschema.ValidationError) *Violation {
	for len(e.Causes) > 0 {
		// Causes come from maps; the order makes the result deterministic.
		e = slices.MinFunc(e.Causes, func(a, b *jsonschema.ValidationError) int {
			return strings.Compare(pointer(a.InstanceLocation), pointer(b.InstanceLocation))
		})
	}
	return &Violation{Pointer: pointer(e.InstanceLocation), Reason: short(reason(e.ErrorKind))}
}

func short(text string) string { return untrusted.Clip(text, maxReason) }

// reason returns the text of a rule, without the value.
func reason(k jsonschema.ErrorKind) string {
	switch k := k.(type) {
	case *kind.Pattern:
		return fmt.Sprintf("does not match the pattern %q", k.Want)
	case *kind.Format:
		return fmt.Sprintf("is not a valid %s", k.Want)
	case *kind.AdditionalProperties:
		if len(k.Properties) == 1 {
			return "has a property that is not allowed"
		}
		return fmt.Sprintf("has %d properties that are not allowed", len(k.Properties))
	case *kind.PropertyNames:
		return "has a property with a name that is not allowed"
	case *kind.ContentEncoding:
		return fmt.Sprintf("is not %s", k.Want)
	case *kind.ContentMediaType:
		return fmt.Sprintf("is not %s", k.Want)
	case *kind.Minimum, *kind.Maximum, *kind.ExclusiveMinimum, *kind.ExclusiveMaximum, *kind.MultipleOf:
		return limit(k)
	case *kind.Type, *kind.Enum, *kind.Const, *kind.Required, *kind.MinItems, *kind.MaxItems, *kind.MinLength,
		*kind.MaxLength, *kind.MinProperties, *kind.MaxProperties, *kind.UniqueItems, *kind.DependentRequired,
		*kind.Dependency, *kind.Contains, *kind.MinContains, *kind.MaxContains, *kind.AdditionalItems,
		*kind.OneOf, *kind.AnyOf, *kind.AllOf, *kind.Not:
		return k.LocalizedString(message.NewPrinter(language.English))
	}
	return "is not allowed"
}

// limit returns the text of a bound, without the value.
func limit(k jsonschema.ErrorKind) string {
	switch k := k.(type) {
	case *kind.Minimum:
		return "must be at least " + decimal(k.Want)
	case *kind.Maximum:
		return "must be at most " + decimal(k.Want)
	case *kind.ExclusiveMinimum:
		return "must be more than " + decimal(k.Want)
	case *kind.ExclusiveMaximum:
		return "must be less than " + decimal(k.Want)
	case *kind.MultipleOf:
		return "must be a multiple of " + decimal(k.Want)
	}
	return "is out of range"
}

// decimal formats a number as in JSON; schemas contain only decimal fractions.
func decimal(r *big.Rat) string {
	digits, _ := r.FloatPrec()
	return r.FloatString(digits)
}

func pointer(location []string) string {
	var b strings.Builder
	for _, name := range location {
		b.WriteByte('/')
		b.WriteString(jsonpointer.Escape(name))
	}
	return b.String()
}
