package toolschema

import (
	"bytes"
	"encoding/json"
	"math/big"
	"regexp/syntax"
	"strconv"
	"unicode/utf8"
	"unsafe"

	"github.com/santhosh-tekuri/jsonschema/v6"
	"github.com/santhosh-tekuri/jsonschema/v6/kind"

	"github.com/capgate/capgate/internal/lib/strictjson"
)

var kindNames = [...]string{strictjson.Null: "null", strictjson.False: "boolean", strictjson.True: "boolean",
	strictjson.Number: "number", strictjson.String: "string", strictjson.Array: "array", strictjson.Object: "object"}

// scalar checks the rules for a value of any type, and those for texts and numbers.
func (c *checker) scalar(s *jsonschema.Schema, v strictjson.Value) bool {
	if s.Types != nil && !s.Types.IsEmpty() && !c.typed(s.Types, v) {
		return c.fail(&kind.Type{Got: kindNames[v.Kind()], Want: s.Types.ToStrings()})
	}
	if s.Const != nil && !c.equals(v, *s.Const) {
		return c.fail(&kind.Const{Want: *s.Const})
	}
	if s.Enum != nil && !c.inEnum(s.Enum.Values, v) {
		return c.fail(&kind.Enum{Want: s.Enum.Values})
	}
	switch v.Kind() {
	case strictjson.String:
		return c.text(s, v.Bytes())
	case strictjson.Number:
		return c.number(s, v.Bytes())
	default:
		return true
	}
}

// typed reports whether a value has one of the types.
func (c *checker) typed(types *jsonschema.Types, v strictjson.Value) bool {
	name := kindNames[v.Kind()]
	for _, want := range types.ToStrings() {
		if want == name || want == "integer" && v.Kind() == strictjson.Number && c.integer(v.Bytes()) {
			return true
		}
	}
	return false
}

func (c *checker) inEnum(values []any, v strictjson.Value) bool {
	for _, want := range values {
		if c.equals(v, want) {
			return true
		}
		if c.stopped != nil {
			return false
		}
	}
	return false
}

func (c *checker) text(s *jsonschema.Schema, text []byte) bool {
	ok := true
	if s.Format != nil && !c.format(s.Format, text) {
		return c.fail(&kind.Format{Want: s.Format.Name})
	}
	if s.MinLength != nil || s.MaxLength != nil {
		c.spend(len(text) / 64)
		n := utf8.RuneCount(text)
		if s.MinLength != nil && n < *s.MinLength {
			ok = c.fail(&kind.MinLength{Got: n, Want: *s.MinLength})
		}
		if s.MaxLength != nil && n > *s.MaxLength {
			ok = c.fail(&kind.MaxLength{Got: n, Want: *s.MaxLength})
		}
	}
	if s.Pattern != nil && !c.matches(s.Pattern, text) {
		ok = c.fail(&kind.Pattern{Want: s.Pattern.String()})
	}
	return ok
}

// matches reports whether a text matches, if enough steps are left.
func (c *checker) matches(re jsonschema.Regexp, text []byte) bool {
	if _, is := re.(uncheckedPattern); is {
		c.assumed++
		return true
	}
	p, is := re.(*pattern)
	if !is { // of a document in the library
		c.spend(len(text))
		return c.stopped == nil && re.MatchString(string(text))
	}
	return c.spend(len(text)*p.instructions/8) && p.Match(text)
}

func (c *checker) format(f *jsonschema.Format, text []byte) bool {
	if f.Name == "regex" {
		if len(text) > maxRegexValue || !c.spend(len(text)) {
			return false
		}
		_, err := syntax.Parse(fromECMA(string(text)), syntax.Perl)
		return err == nil || ecmaOnly(err)
	}
	return c.spend(len(text)/4) && f.Validate(string(text)) == nil
}

func (c *checker) number(s *jsonschema.Schema, text []byte) bool {
	ok := true
	if s.Minimum != nil && c.compare(text, s.Minimum) < 0 {
		ok = c.fail(&kind.Minimum{Want: s.Minimum})
	}
	if s.Maximum != nil && c.compare(text, s.Maximum) > 0 {
		ok = c.fail(&kind.Maximum{Want: s.Maximum})
	}
	if s.ExclusiveMinimum != nil && c.compare(text, s.ExclusiveMinimum) <= 0 {
		ok = c.fail(&kind.ExclusiveMinimum{Want: s.ExclusiveMinimum})
	}
	if s.ExclusiveMaximum != nil && c.compare(text, s.ExclusiveMaximum) >= 0 {
		ok = c.fail(&kind.ExclusiveMaximum{Want: s.ExclusiveMaximum})
	}
	if s.MultipleOf != nil && s.MultipleOf.Sign() != 0 {
		if n := c.rat(text); !new(big.Rat).Quo(n, s.MultipleOf).IsInt() {
			ok = c.fail(&kind.MultipleOf{Want: s.MultipleOf})
		}
	}
	return ok
}

// compare compares a number with a bound.
func (c *checker) compare(text []byte, bound *big.Rat) int {
	if n, is := small(text); is && bound.IsInt() && bound.Num().IsInt64() {
		b := bound.Num().Int64()
		switch {
		case n < b:
			return -1
		case n > b:
			return 1
		}
		return 0
	}
	return c.rat(text).Cmp(bound)
}

// small parses an integer of few digits.
func small(text []byte) (int64, bool) {
	if len(text) > 18 || bytes.ContainsAny(text, ".eE") {
		return 0, false
	}
	n, err := strconv.ParseInt(unsafe.String(unsafe.SliceData(text), len(text)), 10, 64)
	return n, err == nil
}

// rat returns the exact value of a number. strictjson has bounded its digits and its exponent.
func (c *checker) rat(text []byte) *big.Rat {
	c.spend(100 + len(text))
	n, ok := new(big.Rat).SetString(string(text))
	if !ok {
		return new(big.Rat)
	}
	return n
}

func (c *checker) integer(text []byte) bool {
	return !bytes.ContainsAny(text, ".eE") || c.rat(text).IsInt()
}

// equals compares a value with one of the schema.
func (c *checker) equals(v strictjson.Value, want any) bool {
	if !c.spend(0) {
		return false
	}
	switch want := want.(type) {
	case nil:
		return v.Kind() == strictjson.Null
	case bool:
		return want && v.Kind() == strictjson.True || !want && v.Kind() == strictjson.False
	case json.Number:
		return v.Kind() == strictjson.Number && c.same(v.Bytes(), []byte(want))
	case string:
		return v.Kind() == strictjson.String && string(v.Bytes()) == want
	case []any:
		if v.Kind() != strictjson.Array || v.Len() != len(want) {
			return false
		}
		for i, e := range v.Elements() {
			if !c.equals(e, want[i]) {
				return false
			}
		}
		return true
	case map[string]any:
		if v.Kind() != strictjson.Object || v.Len() != len(want) {
			return false
		}
		for name, member := range v.Members() {
			w, there := want[string(name.Bytes())]
			if !there || !c.equals(member, w) {
				return false
			}
		}
		return true
	}
	return false
}

// same reports whether two texts are the same number.
func (c *checker) same(a, b []byte) bool {
	if bytes.Equal(a, b) {
		return true
	}
	x, plain := small(a)
	y, both := small(b)
	if plain && both {
		return x == y
	}
	return c.rat(a).Cmp(c.rat(b)) == 0
}
