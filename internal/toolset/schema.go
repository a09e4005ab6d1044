package toolset

import (
	"bytes"
	"slices"

	"github.com/capgate/capgate/internal/lib/strictjson"
)

// maxNested is the maximum depth of subschemas that are searched.
const maxNested = 8

// Schema returns the schema of a tool's arguments without the fixed ones. A schema that cannot be read is unchanged.
func (e *Entry) Schema(schema []byte) []byte {
	if len(e.Arguments) == 0 || len(schema) == 0 {
		return schema
	}
	r := strictjson.Get()
	defer r.Release()
	if r.Read(schema, strictjson.Options{Keep: true}) != nil {
		return schema
	}
	return e.Arguments.appendOthers(make([]byte, 0, len(schema)), r.Root(), maxNested)
}

// has reports whether there is a fixed argument with a name.
func (a Arguments) has(name strictjson.Value) bool {
	return name.Kind() == strictjson.String &&
		slices.ContainsFunc(a, func(one Argument) bool { return one.Name == string(name.Bytes()) })
}

// appendOthers appends the schema of an object without the arguments, also in the schemas that it applies to the same
// object.
func (a Arguments) appendOthers(to []byte, schema strictjson.Value, levels int) []byte {
	if levels == 0 || schema.Kind() != strictjson.Object {
		return schema.AppendTo(to)
	}
	to = append(to, '{')
	for word, value := range schema.Members() {
		before := len(to)
		to = append(word.AppendTo(to), ':')
		switch string(word.Bytes()) {
		case "properties", "dependentRequired", "dependentSchemas", "dependencies":
			to = a.appendMembers(to, value)
		case "required":
			if to = a.appendNames(to, value); bytes.HasSuffix(to, []byte("[]")) {
				to = to[:before]
				continue
			}
		case "then", "else":
			to = a.appendOthers(to, value, levels-1)
		case "allOf", "anyOf", "oneOf":
			to = a.appendEach(to, value, levels-1)
		default:
			to = value.AppendTo(to)
		}
		to = append(to, ',')
	}
	return end(to, '}')
}

// appendMembers appends an object without the members with the names of the arguments.
func (a Arguments) appendMembers(to []byte, object strictjson.Value) []byte {
	if object.Kind() != strictjson.Object {
		return object.AppendTo(to)
	}
	to = append(to, '{')
	for name, value := range object.Members() {
		if !a.has(name) {
			to = append(value.AppendTo(append(name.AppendTo(to), ':')), ',')
		}
	}
	return end(to, '}')
}

// appendNames appends an array without the names of the arguments.
func (a Arguments) appendNames(to []byte, names strictjson.Value) []byte {
	if names.Kind() != strictjson.Array {
		return names.AppendTo(to)
	}
	to = append(to, '[')
	for _, name := range names.Elements() {
		if !a.has(name) {
			to = append(name.AppendTo(to), ',')
		}
	}
	return end(to, ']')
}

// appendEach appends an array of schemas of the same object.
func (a Arguments) appendEach(to []byte, schemas strictjson.Value, levels int) []byte {
	if schemas.Kind() != strictjson.Array {
		return schemas.AppendTo(to)
	}
	to = append(to, '[')
	for _, one := range schemas.Elements() {
		to = append(a.appendOthers(to, one, levels), ',')
	}
	return end(to, ']')
}

// end ends an object or array, each value of which has a comma after it.
func end(to []byte, bracket byte) []byte {
	if last := len(to) - 1; to[last] == ',' {
		to = to[:last]
	}
	return append(to, bracket)
}
