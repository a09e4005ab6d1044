package toolschema

import (
	"fmt"
	"regexp"
	"regexp/syntax"

	"github.com/santhosh-tekuri/jsonschema/v6"
)

const (
	maxPattern      = 4 << 10 // bytes of a regular expression in a schema
	maxInstructions = 5000    // of its compiled form
	maxRegexValue   = 1 << 10 // bytes of a regular expression in arguments, which is only parsed
)

// pattern is a regular expression with its cost. Matching takes time in proportion to both its length and that of the
// text.
type pattern struct {
	*regexp.Regexp
	instructions int
}

// compilePattern rejects an expression that would be costly to compile or to match.
func compilePattern(text string) (*pattern, error) {
	if len(text) > maxPattern {
		return nil, &costlyError{fmt.Sprintf("a pattern has %d bytes; at most %d are allowed", len(text), maxPattern)}
	}
	tree, err := syntax.Parse(text, syntax.Perl)
	if err != nil {
		return nil, err
	}
	n := instructions(tree)
	if n > maxInstructions {
		return nil, &costlyError{"a pattern repeats too much; write smaller bounds, or maxLength beside it"}
	}
	re, err := regexp.Compile(text)
	if err != nil {
		return nil, err
	}
	return &pattern{re, n}, nil
}

// instructions estimates the number of instructions of a compiled expression, up to a little more than
// maxInstructions.
func instructions(re *syntax.Regexp) int {
	n := 1 + len(re.Rune)/2
	for _, sub := range re.Sub {
		if n > maxInstructions {
			return n
		}
		n += instructions(sub)
	}
	if re.Op == syntax.OpRepeat {
		n *= max(re.Min, re.Max, 1)
	}
	return min(n, maxInstructions+1)
}

// patterns compiles the expressions of one schema, and records that one was too costly: the compiler of schemas does
// not return that error.
type patterns struct{ costly error }

func (e *patterns) compile(text string) (jsonschema.Regexp, error) {
	p, err := compilePattern(text)
	if err == nil {
		return p, nil
	}
	if costly, is := err.(*costlyError); is { //nolint:errorlint // it is never wrapped here
		e.costly = costly
	}
	return nil, err
}

// costlyError is the reason why a valid schema is rejected as too costly.
type costlyError struct{ why string }

func (e *costlyError) Error() string { return "is too costly to check: " + e.why }
