// Package strictyaml reads YAML files of which every field is known. A field that is unknown, duplicate, of the
// wrong kind or out of range is an error with its file, line, field and reason. All errors of a file are found
// at once.
//
// A Decoder reads a file into structs, whose tags say names, defaults and bounds; it also describes what it accepts, as
// a JSON Schema. A package may instead declare each name with a Field of a Reader, which reads and checks the value.
package strictyaml
