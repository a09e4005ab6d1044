package problem

import "regexp"

// value is where protojson repeats what a body says.
var value = regexp.MustCompile(`(?s)(unexpected token|invalid value(?: for \S+ (?:field \S+|key):)?|invalid \S+ value|invalid google\.protobuf\.Value:|unable to resolve|value out of range:) .*`)

// WithoutValue is what protojson says of a body, and where, but for what stands there: it may be a secret.
func WithoutValue(text string) string { return value.ReplaceAllString(text, "$1 …") }
