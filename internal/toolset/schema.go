package toolset

import (
	"encoding/json"
	"slices"

	"github.com/capgate/capgate/internal/lib/plainjson"
)

// maxNested is the maximum depth of subschemas that are searched.
const maxNested = 8

// Schema returns the schema of a tool's arguments without the fixed ones. A schema that cannot be read is unchanged.
func (e *Entry) Schema(schema []byte) []byte {
	if len(e.Arguments) == 0 || len(schema) == 0 {
		return schema
	}
	return e.Arguments.hide(schema, maxNested)
}

// has reports whether there is a fixed argument with a name.
func (a Arguments) has(name string) bool {
	return slices.ContainsFunc(a, func(one Argument) bool { return one.Name == name })
}

// hide removes the arguments from a schema of an object, and from the schemas that it applies to the same object.
func (a Arguments) hide(schema []byte, levels int) []byte {
	var of map[string]json.RawMessage
	if levels == 0 || json.Unmarshal(schema, &of) != nil || of == nil {
		return schema
	}
	for word, value := range of {
		switch word {
		case "properties", "dependentRequired", "dependentSchemas", "dependencies":
			of[word] = a.without(value)
		case "required":
			var names []string
			if json.Unmarshal(value, &names) != nil {
				continue
			}
			if names = slices.DeleteFunc(names, a.has); len(names) == 0 {
				delete(of, word)
				continue
			}
			of[word] = encoded(names, value)
		case "then", "else":
			of[word] = a.hide(value, levels-1)
		case "allOf", "anyOf", "oneOf":
			var all []json.RawMessage
			if json.Unmarshal(value, &all) != nil {
				continue
			}
			for i := range all {
				all[i] = a.hide(all[i], levels-1)
			}
			of[word] = encoded(all, value)
		}
	}
	return encoded(of, schema)
}

// without removes the members with the names of the arguments from an object.
func (a Arguments) without(object json.RawMessage) json.RawMessage {
	var members map[string]json.RawMessage
	if json.Unmarshal(object, &members) != nil || members == nil {
		return object
	}
	for i := range a {
		delete(members, a[i].Name)
	}
	return encoded(members, object)
}

// encoded returns the JSON of a value, or the text before it was changed.
func encoded(value any, before []byte) []byte {
	text, err := plainjson.Marshal(value)
	if err != nil {
		return before
	}
	return text
}
