package grpcservice

import (
	"encoding/json"
	"fmt"
	"math"
	"strings"

	"google.golang.org/genproto/googleapis/api/annotations"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"

	"github.com/capgate/capgate/internal/lib/plainjson"
	"github.com/capgate/capgate/internal/toolschema"
)

// object is a JSON object of a schema.
type object = map[string]any

// schemaOf returns the JSON Schema of a message's JSON form (protobuf.dev/programming-guides/json). Each message and
// enum occurs once, below $defs, so that recursion ends. A field only has the name of the JSON form: policies are
// based on these names.
func schemaOf(m protoreflect.MessageDescriptor, failed *budget) (json.RawMessage, error) {
	b := newSchemaBuilder(m, failed)
	schema := b.message(m)
	if wellKnown(m) != nil {
		// A tool's arguments are an object, and so is the form of few such types.
		if schema["type"] != "object" {
			return nil, fmt.Errorf("is not an object: the JSON form of %s is another value", m.FullName())
		}
	}
	return b.finish(schema)
}

// outputOf returns the JSON Schema of a method's result: the JSON form of its response, or a list of them. It accepts
// more than the descriptors define: a backend may be newer than a client's list of tools.
func outputOf(method protoreflect.MethodDescriptor, failed *budget) (json.RawMessage, error) {
	m := method.Output()
	b := newSchemaBuilder(m, failed)
	b.output = true
	if method.IsStreamingServer() {
		b.at = "#/items"
		return b.finish(object{"type": "array", "items": b.message(m)})
	}
	return b.finish(b.message(m))
}

// finish adds the messages and enums that a schema refers to.
func (b *schemaBuilder) finish(schema object) (json.RawMessage, error) {
	for len(b.todo) > 0 && b.size <= toolschema.MaxBytes {
		next := b.todo[0]
		b.todo = b.todo[1:]
		switch d := next.(type) {
		case protoreflect.MessageDescriptor:
			b.defs[string(d.FullName())] = b.message(d)
		case protoreflect.EnumDescriptor:
			b.defs[string(d.FullName())] = b.enum(d)
		}
	}
	if b.size > toolschema.MaxBytes {
		if b.failed != nil {
			_ = b.failed.take(b.size) // the caller checks what is left
		}
		return nil, fmt.Errorf("has more than %d bytes, as %s has too many fields", toolschema.MaxBytes,
			b.root.FullName())
	}
	if len(b.defs) > 0 {
		schema["$defs"] = b.defs
	}
	return plainjson.Marshal(schema)
}

// schemaBuilder builds the schema of one message.
type schemaBuilder struct {
	root   protoreflect.MessageDescriptor
	failed *budget // for all schemas that are too large; nil means no limit
	at     string  // JSON pointer to the schema of root
	output bool    // the schema is of a result, not of arguments
	defs   object
	known  map[protoreflect.FullName]bool // messages and enums that have a schema, or will have one
	todo   []protoreflect.Descriptor
	size   int // approximate length of the schema; beyond the limit, nothing more is added
}

func newSchemaBuilder(root protoreflect.MessageDescriptor, failed *budget) *schemaBuilder {
	return &schemaBuilder{root: root, failed: failed, at: "#", defs: object{},
		known: map[protoreflect.FullName]bool{root.FullName(): true}}
}

// message returns the schema of a message.
func (b *schemaBuilder) message(m protoreflect.MessageDescriptor) object {
	if w := wellKnown(m); w != nil {
		return w(b, m)
	}
	fields, properties, required := m.Fields(), object{}, []string{}
	for i := 0; i < fields.Len() && b.size <= toolschema.MaxBytes; i++ {
		f := fields.Get(i)
		if !b.output && !takesInput(f) {
			continue
		}
		schema := b.field(f)
		if text := describeField(f); text != "" {
			schema = described(schema, text)
			b.size += len(text)
		}
		b.size += len(f.JSONName()) + perField
		properties[f.JSONName()] = schema
		if !b.output && (f.Cardinality() == protoreflect.Required ||
			hasBehavior(f, annotations.FieldBehavior_REQUIRED)) {
			required = append(required, f.JSONName())
		}
	}
	schema := object{"type": "object", "properties": properties}
	if !b.output {
		schema["additionalProperties"] = false
	}
	if len(required) > 0 {
		schema["required"] = required
	}
	return schema
}

// perField is the approximate length of a field's schema without its name.
const perField = 24

// described returns a schema with a description. Beside $ref, other keywords have an effect since draft 2019-09.
func described(schema object, text string) object {
	out := object{"description": text}
	for name, value := range schema {
		out[name] = value
	}
	return out
}

// takesInput reports whether a caller may set a field.
func takesInput(f protoreflect.FieldDescriptor) bool {
	return !hasBehavior(f, annotations.FieldBehavior_OUTPUT_ONLY)
}

// hasBehavior reports whether a field has one of google.api.field_behavior.
func hasBehavior(f protoreflect.FieldDescriptor, want annotations.FieldBehavior) bool {
	options := f.Options()
	if options == nil || !proto.HasExtension(options, annotations.E_FieldBehavior) {
		return false
	}
	all, _ := proto.GetExtension(options, annotations.E_FieldBehavior).([]annotations.FieldBehavior)
	for _, one := range all {
		if one == want {
			return true
		}
	}
	return false
}

// describeField returns the comment of a field, and which other fields it excludes.
func describeField(f protoreflect.FieldDescriptor) string {
	text := commentOf(f)
	of := f.ContainingOneof()
	if of == nil || of.IsSynthetic() || of.Fields().Len() < 2 {
		return text
	}
	var others []string
	const most = 20 // names; more are not helpful
	for i := 0; i < of.Fields().Len() && i < most; i++ {
		others = append(others, of.Fields().Get(i).JSONName())
	}
	if of.Fields().Len() > most {
		others = append(others, "…")
	}
	return strings.TrimSpace(text + "\nAt most one of these may be set: " + strings.Join(others, ", ") + ".")
}

// field returns the schema of a field.
func (b *schemaBuilder) field(f protoreflect.FieldDescriptor) object {
	switch {
	case f.IsMap():
		schema := object{"type": "object", "additionalProperties": b.value(f.MapValue())}
		if names := keysOf(f.MapKey().Kind()); names != nil {
			schema["propertyNames"] = names
		}
		return schema
	case f.IsList():
		return object{"type": "array", "items": b.value(f)}
	}
	return b.value(f)
}

// keysOf returns the schema of a map's keys; nil means any string.
func keysOf(kind protoreflect.Kind) object {
	switch kind {
	case protoreflect.StringKind:
		return nil
	case protoreflect.BoolKind:
		return object{"enum": []string{"true", "false"}}
	case protoreflect.Uint32Kind, protoreflect.Fixed32Kind, protoreflect.Uint64Kind, protoreflect.Fixed64Kind:
		return object{"pattern": "^(0|[1-9][0-9]*)$"}
	}
	return object{"pattern": "^(0|-?[1-9][0-9]*)$"}
}

// value returns the schema of one value of a field.
func (b *schemaBuilder) value(f protoreflect.FieldDescriptor) object {
	switch f.Kind() {
	case protoreflect.MessageKind, protoreflect.GroupKind:
		if m := f.Message(); wellKnown(m) != nil {
			b.size += perField
			return b.message(m)
		}
		return b.reference(f.Message())
	case protoreflect.EnumKind:
		if f.Enum().FullName() == nullValue {
			return object{"type": "null"}
		}
		return b.reference(f.Enum())
	}
	b.size += perField
	return b.scalar(f.Kind())
}

// reference returns a reference to the schema of a message or enum.
func (b *schemaBuilder) reference(d protoreflect.Descriptor) object {
	b.size += len(d.FullName()) + perField
	if d.FullName() == b.root.FullName() {
		return object{"$ref": b.at}
	}
	if !b.known[d.FullName()] {
		b.known[d.FullName()] = true
		b.todo = append(b.todo, d)
	}
	return object{"$ref": "#/$defs/" + string(d.FullName())}
}

// enum returns the schema of an enum: the names of its values. In a result, a value without a name is a number.
func (b *schemaBuilder) enum(e protoreflect.EnumDescriptor) object {
	var names []string
	var text strings.Builder
	for i := 0; i < e.Values().Len() && b.size <= toolschema.MaxBytes; i++ {
		v := e.Values().Get(i)
		b.size += len(v.Name()) + 3
		names = append(names, string(v.Name()))
		if comment := commentOf(v); comment != "" && text.Len() < maxComment {
			fmt.Fprintf(&text, "%s: %s\n", v.Name(), comment)
		}
	}
	schema := object{"type": "string", "enum": names}
	if b.output {
		schema = object{"anyOf": []object{schema, {"type": "integer"}}}
	}
	if all := strings.TrimSpace(commentOf(e) + "\n" + text.String()); all != "" {
		schema["description"] = all
		b.size += len(all)
	}
	return schema
}

// scalar returns the schema of a scalar. In a result, a 64-bit integer is a string.
func (b *schemaBuilder) scalar(kind protoreflect.Kind) object {
	switch kind {
	case protoreflect.BoolKind:
		return object{"type": "boolean"}
	case protoreflect.Int32Kind, protoreflect.Sint32Kind, protoreflect.Sfixed32Kind:
		return object{"type": "integer", "minimum": math.MinInt32, "maximum": math.MaxInt32}
	case protoreflect.Uint32Kind, protoreflect.Fixed32Kind:
		return object{"type": "integer", "minimum": 0, "maximum": math.MaxUint32}
	case protoreflect.Int64Kind, protoreflect.Sint64Kind, protoreflect.Sfixed64Kind:
		if b.output {
			return object{"type": "string", "pattern": "^(0|-?[1-9][0-9]*)$"}
		}
		return object{"type": []string{"integer", "string"}, "pattern": "^(0|-?[1-9][0-9]*)$"}
	case protoreflect.Uint64Kind, protoreflect.Fixed64Kind:
		if b.output {
			return object{"type": "string", "pattern": "^(0|[1-9][0-9]*)$"}
		}
		return object{"type": []string{"integer", "string"}, "minimum": 0, "pattern": "^(0|[1-9][0-9]*)$"}
	case protoreflect.FloatKind, protoreflect.DoubleKind:
		return object{"anyOf": []object{{"type": "number"}, {"enum": []string{"NaN", "Infinity", "-Infinity"}}}}
	case protoreflect.BytesKind:
		return object{"type": "string", "contentEncoding": "base64", "pattern": "^[A-Za-z0-9+/]*={0,2}$"}
	}
	return object{"type": "string"}
}
