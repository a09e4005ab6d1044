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

	"github.com/capgate/capgate/internal/lib/jsonpointer"
	"github.com/capgate/capgate/internal/lib/strictjson"
)

const (
	// maxSteps bounds the cost of one check. A step takes some 20 ns: a subschema applied to a value, a name that is
	// compared, or a few bytes of a text that is matched.
	maxSteps = 1 << 19
	// stepsForSize bounds the additional steps, one for each byte: long texts take longer to match.
	stepsForSize = 1 << 20
	// stepsBetween is the number of steps between two looks at the context.
	stepsBetween = 1 << 12
	// MaxViolations is the number of violations after which a check ends.
	MaxViolations = 10
)

// ErrCostly is the error of a check that would take too long.
var ErrCostly = errors.New("are too large, or nested too deeply, to be checked against the tool's schema")

// Check checks arguments against the schema. It returns nil, a *Violation, a *strictjson.Error, an
// *AmbiguousNameError, ErrCostly, or the error of ctx. Empty arguments are an empty object.
//
// Its cost is bounded by a number of steps, whatever the arguments and the schema.
func (s *Schema) Check(ctx context.Context, args []byte) error {
	if len(bytes.TrimSpace(args)) == 0 {
		args = []byte("{}")
	}
	r := strictjson.Get()
	defer r.Release()
	if err := r.Read(args, strictjson.Options{Keep: true, Fold: true, Values: MaxValues}); err != nil {
		return err
	}
	if s.compiled == nil {
		return nil
	}
	c := &checker{ctx: ctx, graph: s.graph, left: maxSteps + min(len(args), stepsForSize)}
	return c.conclusion(c.check(s.compiled, r.Root(), nil))
}

// conclusion returns the error of a check, given whether the text is valid.
func (c *checker) conclusion(valid bool) error {
	switch {
	case c.stopped != nil:
		return c.stopped
	case len(c.ambiguous) > 0:
		return c.ambiguousName()
	case valid:
		return nil
	}
	return c.violation()
}

// CheckResult returns what is wrong with the result of a tool, which is JSON; nil: nothing, or the check would take too
// long. Names that differ only in case are different names.
func (s *Schema) CheckResult(ctx context.Context, result []byte) *Violation {
	r := strictjson.Get()
	defer r.Release()
	if s.compiled == nil || r.Read(result, strictjson.Options{Keep: true, Values: MaxValues}) != nil {
		return nil
	}
	c := &checker{ctx: ctx, graph: s.graph, left: maxSteps + min(len(result), stepsForSize), exactNames: true}
	if c.check(s.compiled, r.Root(), nil) || c.stopped != nil {
		return nil
	}
	return c.violation()
}

// violation returns the violations that were found.
func (c *checker) violation() *Violation {
	if len(c.found) == 0 {
		return &Violation{Reason: "is not allowed"}
	}
	// The first is the one to report where there is room for one only.
	slices.SortStableFunc(c.found, func(a, b Violation) int { return strings.Compare(a.Pointer, b.Pointer) })
	first := c.found[0]
	first.More = c.found[1:]
	return &first
}

// checker checks one text. The library compiles schemas, and defines their meaning; but its own check cannot be
// interrupted, has no bound, and keeps every violation.
type checker struct {
	ctx       context.Context
	graph     *graph
	left      int // steps
	nextCheck int // of ctx, as a number of steps left
	stopped   error
	quiet     int // more than 0: violations are not recorded
	found     []Violation
	path      []segment
	// assumed counts matches of patterns that are not checked. A rule that turns on validity, such as not, says nothing
	// where the count changes.
	assumed int

	exactNames bool // names that differ only in case are different names

	ambiguous map[int]string // by the index of a name that differs only in case from a declared one, which is the value
	exact     map[int]bool   // such names that are declared, too
}

// segment is a part of the path to a value: a name, or if that is nil an index.
type segment struct {
	name  []byte
	index int
}

// spend counts steps. It returns false when none are left or the context has ended.
func (c *checker) spend(steps int) bool {
	if c.left -= 1 + steps; c.stopped == nil && (c.left < c.nextCheck || c.nextCheck == 0) {
		c.nextCheck = c.left - stepsBetween
		if c.left < 0 {
			c.stopped = ErrCostly
		} else if err := c.ctx.Err(); err != nil {
			c.stopped = err
		}
	}
	return c.stopped == nil
}

// done reports whether no more violations are wanted.
func (c *checker) done() bool { return c.stopped != nil || len(c.found) >= MaxViolations }

// fail records a violation, and returns false.
func (c *checker) fail(k jsonschema.ErrorKind) bool {
	if c.quiet == 0 && !c.done() {
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
			b.WriteString(jsonpointer.Escape(string(p.name)))
		}
	}
	return b.String()
}

// at checks the value of a member or element.
func (c *checker) at(p segment, s *jsonschema.Schema, v strictjson.Value) bool {
	c.path = append(c.path, p)
	ok := c.check(s, v, nil)
	c.path = c.path[:len(c.path)-1]
	return ok
}

// valid reports whether a value is valid, without recording violations.
func (c *checker) valid(s *jsonschema.Schema, v strictjson.Value, m *evaluated) bool {
	c.quiet++
	ok := c.check(s, v, m)
	c.quiet--
	return ok
}

// check checks a value, and records in m, unless it is nil, the members and elements that were evaluated. After a
// violation it continues only to find others, and returns false.
func (c *checker) check(s *jsonschema.Schema, v strictjson.Value, m *evaluated) bool {
	if !c.spend(1) {
		return false
	}
	if s.Bool != nil {
		return *s.Bool || c.fail(&kind.FalseSchema{})
	}
	if !c.scalar(s, v) {
		return false
	}
	own := m
	if s.UnevaluatedItems != nil || s.UnevaluatedProperties != nil {
		own = newEvaluated(v) // merged into m at the end
	}
	ok := true
	and := func(valid bool) bool { // whether to continue
		ok = ok && valid
		return ok || c.quiet == 0 && !c.done()
	}
	if s.Ref != nil {
		if !and(c.sub(s.Ref, v, own)) || s.DraftVersion < 2019 {
			return ok
		}
	}
	if !and(c.members(s, v, own)) || !and(c.elements(s, v, own)) || !and(c.refs(s, v, own)) ||
		!and(c.combined(s, v, own)) ||
		!and(c.unevaluated(s, v, own)) {
		return false
	}
	if own != m && m != nil && ok {
		m.merge(own)
	}
	return ok
}

// sub applies a subschema to the same value. If it is valid, its evaluated members and elements count.
func (c *checker) sub(s *jsonschema.Schema, v strictjson.Value, m *evaluated) bool {
	if m == nil {
		return c.check(s, v, nil)
	}
	own := newEvaluated(v)
	if !c.spend(len(own.bits)) || !c.check(s, v, own) {
		return false
	}
	m.merge(own)
	return true
}

// refs checks references that could depend on their dynamic scope; survey has rejected schemas in which they do.
func (c *checker) refs(s *jsonschema.Schema, v strictjson.Value, m *evaluated) bool {
	ok := true
	if s.RecursiveRef != nil {
		ok = c.sub(s.RecursiveRef, v, m)
	}
	if s.DynamicRef != nil && (ok || c.quiet == 0) {
		ok = c.sub(s.DynamicRef.Ref, v, m) && ok
	}
	return ok
}

// combined checks not, allOf, anyOf, oneOf and if.
func (c *checker) combined(s *jsonschema.Schema, v strictjson.Value, m *evaluated) bool {
	ok, before := true, c.assumed
	if s.Not != nil && c.valid(s.Not, v, nil) && c.assumed == before {
		ok = c.fail(&kind.Not{})
	}
	for _, sub := range s.AllOf {
		if !ok && (c.quiet > 0 || c.done()) {
			return false
		}
		ok = c.sub(sub, v, m) && ok
	}
	if len(s.AnyOf) > 0 && c.matching(s.AnyOf, v, m, m == nil) == 0 {
		ok = c.noneValid(s.AnyOf[0], v, &kind.AnyOf{})
	}
	if len(s.OneOf) > 0 {
		before = c.assumed
		switch n := c.matching(s.OneOf, v, m, false); {
		case n == 0:
			ok = c.noneValid(s.OneOf[0], v, &kind.OneOf{})
		case n > 1 && c.assumed == before:
			ok = c.fail(&kind.OneOf{Subschemas: c.firstTwo(s.OneOf, v)})
		}
	}
	if s.If == nil || !ok && c.quiet > 0 {
		return ok
	}
	before = c.assumed
	c.quiet++
	then := c.sub(s.If, v, m)
	c.quiet--
	switch {
	case then && c.assumed != before:
		m.setAll()
		return ok
	case then && s.Then != nil:
		return c.sub(s.Then, v, m) && ok
	case !then && s.Else != nil:
		return c.sub(s.Else, v, m) && ok
	}
	return ok
}

// matching counts the subschemas that accept a value; with one it ends after the first.
func (c *checker) matching(all []*jsonschema.Schema, v strictjson.Value, m *evaluated, one bool) (n int) {
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

// noneValid records why no subschema accepts a value: the violations of the first one, as an example.
func (c *checker) noneValid(first *jsonschema.Schema, v strictjson.Value, k jsonschema.ErrorKind) bool {
	before := len(c.found)
	if c.quiet == 0 && c.check(first, v, nil) || len(c.found) == before {
		return c.fail(k)
	}
	return false
}

// firstTwo returns the indexes of the first two subschemas that accept a value.
func (c *checker) firstTwo(all []*jsonschema.Schema, v strictjson.Value) (two []int) {
	for i, sub := range all {
		if len(two) < 2 && c.valid(sub, v, nil) {
			two = append(two, i)
		}
	}
	if len(two) < 2 { // no steps are left
		return []int{0, 0}
	}
	return two
}

// ambiguousName returns the error for the first name that a reader could take for another, declared one.
func (c *checker) ambiguousName() error {
	first := -1
	for at := range c.ambiguous {
		if !c.exact[at] && (first < 0 || at < first) {
			first = at
		}
	}
	return &AmbiguousNameError{Declared: c.ambiguous[first]}
}

// AmbiguousNameError is the error for a name that differs from a declared one only in case. Some tools take it for
// the declared one, whose rules its value was not checked against.
type AmbiguousNameError struct{ Declared string }

func (e *AmbiguousNameError) Error() string {
	return "have a name that differs only in case from " + strconv.Quote(short(e.Declared)) + " in the schema"
}

// evaluated records the members or elements of a value that were evaluated.
type evaluated struct{ bits []uint64 }

func newEvaluated(v strictjson.Value) *evaluated {
	if k := v.Kind(); k != strictjson.Object && k != strictjson.Array {
		return &evaluated{}
	}
	return &evaluated{make([]uint64, (v.Len()+63)/64)}
}

// set records the i-th member or element. m may be nil.
func (m *evaluated) set(i int) {
	if m != nil {
		m.bits[i/64] |= 1 << (i % 64)
	}
}

// setAll records all members or elements. m may be nil.
func (m *evaluated) setAll() {
	if m != nil {
		for i := range m.bits {
			m.bits[i] = ^uint64(0)
		}
	}
}

func (m *evaluated) has(i int) bool { return m.bits[i/64]&(1<<(i%64)) != 0 }

func (m *evaluated) merge(other *evaluated) {
	for i := range min(len(m.bits), cmp.Or(len(other.bits), 0)) {
		m.bits[i] |= other.bits[i]
	}
}
