// Package toolschema compiles the JSON Schema of a tool's arguments, computes its hash, and checks arguments against
// it.
//
// A schema is compiled once and then only read. It is self-contained: a reference to another document is rejected,
// and nothing is ever fetched. Errors about arguments name the place and the rule, never the value, which may be a
// secret.
package toolschema
