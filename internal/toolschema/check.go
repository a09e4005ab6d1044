package toolschema

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"slices"
	"strconv"
	"strings"

	"github.com/santhosh-tekuri/jsonschema/v6"
	"github.com/santhosh-tekuri/jsonschema/v6/kind"

	"github.com/capgate/capgate/internal/lib/strictjson"
)

const (
	// maxSteps is how much one check may cost. A step is some 20 ns: a subschema that is applied
	// to a value, a name that is compared, a few bytes of a text that is matched.
	maxSteps = 1 << 19
	// stepsForSize is how many more there are, one for each byte: long texts are matched longer.
	stepsForSize = 1 << 20
	// stepsBetween is after how many steps a check looks whether it is still wanted.
	stepsBetween = 1 << 12
	// MaxViolations is after how many a check ends.
	MaxViolations = 10
)

// ErrCostly is the end of a check that would take too long.
var ErrCostly = errors.New("are too large, or too deep in each other, to be checked against the tool's schema")

// Check says whether arguments keep to the schema: nil, a *Violation, a *strictjson.Error,
// ErrCostly, or why ctx has ended. No arguments at all are an empty object.
//
// What it costs is bounded, by steps, whatever the arguments and the schema.
func (s *Schema) Check(ctx context.Context, args []byte) error {
	if len(bytes.TrimSpace(args)) == 0 {
		args = []byte("{}")
	}
	r := strictjson.Get()
	defer r.Release()
	if err := r.Read(args, strictjson.Options{Keep: true, Fold: true, Values: MaxValues}); err != nil {
		return err
	}
	c := &checker{ctx: ctx, graph: s.graph, left: maxSteps + min(len(args), stepsForSize)}
	valid := c.check(s.compiled, r.Root(), nil)
	switch {
	case c.stopped != nil:
		return c.stopped
	case len(c.odd) > 0:
		return c.oddName()
	case valid:
		return nil
	case len(c.found) == 0:
		return &Violation{Reason: "is not allowed"}
	}
	// The first is the one that is said alone where there is room for one.
	slices.SortStableFunc(c.found, func(a, b Violation) int { return strings.Compare(a.Pointer, b.Pointer) })
	first := c.found[0]
	first.More = c.found[1:]
	return &first
}

// checker checks one text. The library compiles schemas, and is right about what they mean;
// but it cannot be stopped, counts nothing, and keeps every violation.
type checker struct {
	ctx     context.Context
	graph   *graph
	left    int // steps
	look    int // at ctx, when so many are left
	stopped error
	quiet   int // more than 0: only whether it is valid matters
	found   []Violation
	path    []place

	odd   map[int]string // names by their place that differ only in case from declared ones
	exact map[int]bool   // such that are declared, too
}

// place is a step of the way to a value: a name, or if that is nil an index.
type place struct {
	name  []byte
	index int
}

// pay takes steps, and is false when there are none left or nobody waits any more.
func (c *checker) pay(steps int) bool {
	if c.left -= 1 + steps; c.stopped == nil && (c.left < c.look || c.look == 0) {
		c.look = c.left - stepsBetween
		if c.left < 0 {
			c.stopped = ErrCostly
		} else if err := c.ctx.Err(); err != nil {
			c.stopped = err
		}
	}
	return c.stopped == nil
}

// over says that no more violations are wanted.
func (c *checker) over() bool { return c.stopped != nil || len(c.found) >= MaxViolations }

// wrong notes a violation, and is false.
func (c *checker) wrong(k jsonschema.ErrorKind) bool {
	if c.quiet == 0 && !c.over() {
		c.found = append(c.found, Violation{Pointer: c.pointer(), Reason: short(reason(k))})
	}
	return false
}

func (c *checker) pointer() string {
	var b strings.Builder
	for _, p := range c.path {
		b.WriteByte('/')
		if p.name == nil {
			b.WriteString(strconv.Itoa(p.index))
		} else {
			b.WriteString(strings.NewReplacer("~", "~0", "/", "~1").Replace(string(p.name)))
		}
	}
	return b.String()
}

// at checks what is in a value.
func (c *checker) at(p place, s *jsonschema.Schema, v strictjson.Value) bool {
	c.path = append(c.path, p)
	ok := c.check(s, v, nil)
	c.path = c.path[:len(c.path)-1]
	return ok
}

// quietly says only whether a value is valid.
func (c *checker) quietly(s *jsonschema.Schema, v strictjson.Value, m *marks) bool {
	c.quiet++
	ok := c.check(s, v, m)
	c.quiet--
	return ok
}

// check checks a value, and marks in m, unless that is nil, what of it was evaluated. It
// goes on after a violation only to find others, and then it is false whatever they are.
func (c *checker) check(s *jsonschema.Schema, v strictjson.Value, m *marks) bool {
	if !c.pay(1) {
		return false
	}
	if s.Bool != nil {
		return *s.Bool || c.wrong(&kind.FalseSchema{})
	}
	if !c.scalar(s, v) {
		return false
	}
	own := m
	if s.UnevaluatedItems != nil || s.UnevaluatedProperties != nil {
		own = newMarks(v) // of which the caller learns at the end
	}
	ok := true
	and := func(valid bool) bool { // whether to go on
		ok = ok && valid
		return ok || c.quiet == 0 && !c.over()
	}
	if s.Ref != nil {
		if !and(c.sub(s.Ref, v, own)) || s.DraftVersion < 2019 {
			return ok
		}
	}
	if !and(c.members(s, v, own)) || !and(c.elements(s, v, own)) || !and(c.refs(s, v, own)) || !and(c.combined(s, v, own)) ||
		!and(c.unevaluated(s, v, own)) {
		return false
	}
	if own != m && m != nil && ok {
		m.merge(own)
	}
	return ok
}

// sub applies a subschema to the same value. What it has evaluated counts if it is valid.
func (c *checker) sub(s *jsonschema.Schema, v strictjson.Value, m *marks) bool {
	if m == nil {
		return c.check(s, v, nil)
	}
	own := newMarks(v)
	if !c.pay(len(own.bits)) || !c.check(s, v, own) {
		return false
	}
	m.merge(own)
	return true
}

// refs are references that could depend on the way to them; survey has made sure that these
// do not.
func (c *checker) refs(s *jsonschema.Schema, v strictjson.Value, m *marks) bool {
	ok := true
	if s.RecursiveRef != nil {
		ok = c.sub(s.RecursiveRef, v, m)
	}
	if s.DynamicRef != nil && (ok || c.quiet == 0) {
		ok = c.sub(s.DynamicRef.Ref, v, m) && ok
	}
	return ok
}

// combined is not, allOf, anyOf, oneOf, if.
func (c *checker) combined(s *jsonschema.Schema, v strictjson.Value, m *marks) bool {
	ok := true
	if s.Not != nil && c.quietly(s.Not, v, nil) {
		ok = c.wrong(&kind.Not{})
	}
	for _, sub := range s.AllOf {
		if !ok && (c.quiet > 0 || c.over()) {
			return false
		}
		ok = c.sub(sub, v, m) && ok
	}
	if len(s.AnyOf) > 0 && c.matching(s.AnyOf, v, m, m == nil) == 0 {
		ok = c.none(s.AnyOf[0], v, &kind.AnyOf{})
	}
	if len(s.OneOf) > 0 {
		switch c.matching(s.OneOf, v, m, false) {
		case 0:
			ok = c.none(s.OneOf[0], v, &kind.OneOf{})
		case 1:
		default:
			ok = c.wrong(&kind.OneOf{Subschemas: c.both(s.OneOf, v)})
		}
	}
	if s.If == nil || !ok && c.quiet > 0 {
		return ok
	}
	c.quiet++
	then := c.sub(s.If, v, m)
	c.quiet--
	switch {
	case then && s.Then != nil:
		return c.sub(s.Then, v, m) && ok
	case !then && s.Else != nil:
		return c.sub(s.Else, v, m) && ok
	}
	return ok
}

// matching counts the subschemas that take a value, up to the first where that is enough.
func (c *checker) matching(all []*jsonschema.Schema, v strictjson.Value, m *marks, one bool) (n int) {
	c.quiet++
	defer func() { c.quiet-- }()
	for _, sub := range all {
		if c.stopped != nil {
			return n
		}
		if c.sub(sub, v, m) {
			if n++; one {
				return n
			}
		}
	}
	return n
}

// none says why none takes a value, by the example of the first.
func (c *checker) none(first *jsonschema.Schema, v strictjson.Value, k jsonschema.ErrorKind) bool {
	before := len(c.found)
	if c.quiet == 0 && c.check(first, v, nil) || len(c.found) == before {
		return c.wrong(k)
	}
	return false
}

// both are the first two that take a value.
func (c *checker) both(all []*jsonschema.Schema, v strictjson.Value) (two []int) {
	for i, sub := range all {
		if len(two) < 2 && c.quietly(sub, v, nil) {
			two = append(two, i)
		}
	}
	if len(two) < 2 { // there are no steps left
		return []int{0, 0}
	}
	return two
}

// oddName is the first name that a reader could take for another that is declared.
func (c *checker) oddName() error {
	first := -1
	for at := range c.odd {
		if !c.exact[at] && (first < 0 || at < first) {
			first = at
		}
	}
	return &AmbiguousNameError{Declared: c.odd[first]}
}

// AmbiguousNameError is about a name that differs from a declared one in case alone. Some
// tools take one for the other, so that nobody would have checked what is under it.
type AmbiguousNameError struct{ Declared string }

func (e *AmbiguousNameError) Error() string {
	return "have a name that differs from " + strconv.Quote(short(e.Declared)) + ", which the schema has, only in case"
}

// marks say which members or elements of a value were evaluated.
type marks struct{ bits []uint64 }

func newMarks(v strictjson.Value) *marks {
	if k := v.Kind(); k != strictjson.Object && k != strictjson.Array {
		return &marks{}
	}
	return &marks{make([]uint64, (v.Len()+63)/64)}
}

// set marks one. m may be nil.
func (m *marks) set(i int) {
	if m != nil {
		m.bits[i/64] |= 1 << (i % 64)
	}
}

func (m *marks) has(i int) bool { return m.bits[i/64]&(1<<(i%64)) != 0 }

func (m *marks) merge(other *marks) {
	for i := range min(len(m.bits), cmp.Or(len(other.bits), 0)) {
		m.bits[i] |= other.bits[i]
	}
}
