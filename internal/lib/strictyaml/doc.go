// Package strictyaml reads YAML files of which every field is known. A field that is unknown, duplicate, of the
// wrong kind or out of range is an error with its file, line, field and reason. All errors of a file are found
// at once.
//
// The package knows no fields itself. A package with a file declares each name with a Field, which reads and
// checks the value.
package strictyaml
