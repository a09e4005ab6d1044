package problem

import "regexp"

// value matches the part of a protojson error that quotes the body.
var value = regexp.MustCompile(`(?s)(unexpected token|invalid value(?: for \S+ (?:field \S+|key):)?|invalid \S+ value|invalid google\.protobuf\.Value:|unable to resolve|value out of range:) .*`)

// WithoutValue returns a protojson error without the quoted part of the body, which may be a secret.
func WithoutValue(text string) string { return value.ReplaceAllString(text, "$1 …") }
