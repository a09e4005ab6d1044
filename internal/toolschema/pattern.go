package toolschema

import (
	"errors"
	"fmt"
	"regexp"
	"regexp/syntax"
	"slices"
	"strconv"
	"strings"
	"unicode/utf16"

	"github.com/santhosh-tekuri/jsonschema/v6"
)

const (
	maxPattern      = 4 << 10 // bytes of a regular expression in a schema
	maxInstructions = 5000    // of its compiled form
	maxTotal        = 100_000 // instructions of all expressions of a schema
	maxRegexValue   = 1 << 10 // bytes of a regular expression in arguments, which is only parsed
)

// pattern is a regular expression with its cost. Matching takes time in proportion to both its length and that of the
// text.
type pattern struct {
	*regexp.Regexp
	text         string // as the schema has it
	instructions int
}

func (p *pattern) String() string { return p.text }

// compilePattern rejects an expression that would be costly to compile or to match. It returns nil for one of ECMA-262,
// the language of patterns in JSON Schema, that Go's linear-time expressions cannot express.
func compilePattern(text string) (*pattern, error) {
	if len(text) > maxPattern {
		return nil, &costlyError{fmt.Sprintf("a pattern has %d bytes; at most %d are allowed", len(text), maxPattern)}
	}
	expression := fromECMA(text)
	tree, err := syntax.Parse(expression, syntax.Perl)
	if ecmaOnly(err) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	n := instructions(tree)
	if n > maxInstructions {
		return nil, &costlyError{"a pattern repeats too much; write smaller bounds, or maxLength beside it"}
	}
	re, err := regexp.Compile(expression)
	if err != nil {
		return nil, err
	}
	return &pattern{re, text, n}, nil
}

// unicodeEscape is one of ECMA-262: a code unit of UTF-16, or a pair of them.
var unicodeEscape = regexp.MustCompile(
	`\\\\|\\u([dD][89abAB][0-9a-fA-F]{2})\\u([dD][c-fC-F][0-9a-fA-F]{2})|\\u([0-9a-fA-F]{4})|\\u\{`)

var halfOfPair = regexp.MustCompile(`^[dD][89a-fA-F]`)

// fromECMA writes the escapes of ECMA-262 as Go has them.
func fromECMA(text string) string {
	if !strings.Contains(text, `\u`) {
		return text
	}
	return unicodeEscape.ReplaceAllStringFunc(text, func(escape string) string {
		hex := unicodeEscape.FindStringSubmatch(escape)
		switch {
		case hex[1] != "":
			high, _ := strconv.ParseUint(hex[1], 16, 16)
			low, _ := strconv.ParseUint(hex[2], 16, 16)
			return fmt.Sprintf(`\x{%x}`, utf16.DecodeRune(rune(high), rune(low)))
		case hex[3] != "" && !halfOfPair.MatchString(hex[3]):
			return `\x{` + hex[3] + `}`
		case escape == `\u{`:
			return `\x{`
		}
		return escape
	})
}

// ecmaOnly reports whether an error is of what ECMA-262 has and Go has not: lookaround, references to groups, \uXXXX
// with surrogates, repeats of more than 1000, classes such as [^] and [\w-.].
func ecmaOnly(err error) bool {
	var wrong *syntax.Error
	if !errors.As(err, &wrong) {
		return false
	}
	switch wrong.Code {
	case syntax.ErrInvalidPerlOp, syntax.ErrInvalidEscape, syntax.ErrInvalidCharClass, syntax.ErrInvalidNamedCapture,
		syntax.ErrInvalidUTF8:
		return true
	case syntax.ErrInvalidCharRange: // [9-0] is a mistake in both; \pX and [[:x:]] are not
		return strings.HasPrefix(wrong.Expr, `\p`) || strings.HasPrefix(wrong.Expr, `\P`) ||
			strings.HasPrefix(wrong.Expr, "[:")
	case syntax.ErrInvalidRepeatSize: // and so is {3,1}
		least, most, _ := strings.Cut(strings.Trim(wrong.Expr, "{}?"), ",")
		from, _ := strconv.Atoi(least)
		to, err := strconv.Atoi(most)
		return err != nil || from <= to
	case syntax.ErrMissingBracket:
		return strings.Contains(wrong.Expr, "[]") || strings.Contains(wrong.Expr, "[^]")
	}
	return false
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
type patterns struct {
	costly       error
	unchecked    []string
	instructions int
}

func (e *patterns) compile(text string) (jsonschema.Regexp, error) {
	p, err := compilePattern(text)
	if err == nil && p == nil {
		e.leaveOut(text)
		return uncheckedPattern(text), nil
	}
	if err == nil {
		if e.instructions += p.instructions; e.instructions > maxTotal {
			err = &costlyError{"its patterns together repeat too much; write smaller bounds, or maxLength beside them"}
		}
	}
	if err == nil {
		return p, nil
	}
	if costly, is := err.(*costlyError); is { //nolint:errorlint // it is never wrapped here
		e.costly = costly
	}
	return nil, err
}

// maxUnchecked bounds the patterns of a schema that are named.
const maxUnchecked = 10

func (e *patterns) leaveOut(text string) {
	note := fmt.Sprintf("the pattern %.80q is not checked: it needs more than a linear-time expression", text)
	if len(e.unchecked) < maxUnchecked && !slices.Contains(e.unchecked, note) {
		e.unchecked = append(e.unchecked, note)
	}
}

// uncheckedPattern is a pattern that is not checked.
type uncheckedPattern string

// MatchString implements jsonschema.Regexp.
func (uncheckedPattern) MatchString(string) bool { return true }

func (p uncheckedPattern) String() string { return string(p) }

// costlyError is the reason why a valid schema is rejected as too costly.
type costlyError struct{ why string }

func (e *costlyError) Error() string { return "is too costly to check: " + e.why }
