// Package toolschema is the JSON Schema of a tool's arguments: whether it is one, what it
// is known by, and whether arguments keep to it.
//
// A schema is compiled once and then only read. It is whole in itself: a reference to
// another document is refused, and nothing is ever fetched. What it says of arguments names
// the place and the rule, never the value, which may be anybody's secret.
package toolschema
