// Package strictyaml reads YAML files of which every field is known: what is unknown, given
// twice, of the wrong kind or out of range is an error with its file, line, field and
// reason, and all errors of a file are found at once.
//
// It knows no field itself. A package that has a file says with a Field for each of its
// names how the value is read and checked.
package strictyaml
