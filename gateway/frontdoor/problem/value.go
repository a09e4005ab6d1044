package problem

import (
	"cmp"
	"regexp"
	"strings"
)

// Errors of protojson and grpc-gateway quote the request. Only the following patterns parse their texts.
var (
	// value matches the part of a protojson error that quotes the body.
	value = regexp.MustCompile(`(?s)(unexpected token|invalid value(?: for \S+ (?:field \S+|key):)?|invalid \S+ value|` +
		`invalid google\.protobuf\.Value:|unable to resolve|value out of range:) .*`)
	// placed matches a protojson error, without the name of the library.
	placed = regexp.MustCompile(`^(?:proto:[ \x{a0}])?((?:syntax error )?\(line \d+:\d+\): .*|(?:invalid (?:value|google\.|JSON:|\S+ value)|unknown|missing|duplicate) .*)$`)
	// long matches the part of a name in an error that is not shown.
	long = regexp.MustCompile(`("[^"]{100})[^"]+"`)
	// parameter matches a grpc-gateway error about a parameter of the query or the path, which it names.
	parameter = regexp.MustCompile(
		`^(?:parsing (?:field|list|map key|map value)|too many values for field|duplicate field|` +
			`field already set for oneof|enum|more than one value provided for key "[^"]*" in map|type mismatch, parameter:) ?"?([a-z_]*)`)
)

// WithoutValue returns a protojson error without the quoted part of the body, which may be secret, and without the
// name of the library; empty means that the error is from another library.
func WithoutValue(text string) string {
	found := placed.FindStringSubmatch(strings.ReplaceAll(text, "\n", " "))
	if found == nil {
		return ""
	}
	return long.ReplaceAllString(value.ReplaceAllString(found[1], "$1 …"), `$1…"`)
}

// WrongBody returns the text of an error for a body that a library could not decode. text is the library's error.
func WrongBody(text string) string {
	if strings.HasSuffix(text, "EOF") {
		return "the body is invalid: it ends within a value"
	}
	return "the body is invalid: " + cmp.Or(WithoutValue(text), "it is not the JSON of this request")
}

// Parameter returns the query parameter that a grpc-gateway error is about. ok is true if there is one, which may be
// unnamed.
func Parameter(text string) (name string, ok bool) {
	found := parameter.FindStringSubmatch(text)
	if found == nil {
		return "", strings.HasPrefix(text, "invalid path")
	}
	return found[1], true
}

// WrongQuery returns the error of a query for an error of grpc-gateway.
func WrongQuery(text string) string {
	switch name, _ := Parameter(text); {
	case name == "":
		return "the query is invalid"
	case strings.HasPrefix(text, "too many"), strings.HasPrefix(text, "duplicate"):
		return "the query is invalid: " + name + " occurs more than once"
	default:
		return "the query is invalid: the value of " + name + " has the wrong type"
	}
}
