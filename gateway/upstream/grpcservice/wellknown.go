package grpcservice

import (
	"google.golang.org/protobuf/reflect/protoreflect"

	// The types whose JSON form is not that of their fields.
	_ "google.golang.org/protobuf/types/known/anypb"
	_ "google.golang.org/protobuf/types/known/durationpb"
	_ "google.golang.org/protobuf/types/known/emptypb"
	_ "google.golang.org/protobuf/types/known/fieldmaskpb"
	_ "google.golang.org/protobuf/types/known/structpb"
	_ "google.golang.org/protobuf/types/known/timestamppb"
	_ "google.golang.org/protobuf/types/known/wrapperspb"
)

// wellKnownPackage contains the types with a special JSON form.
const wellKnownPackage = "google.protobuf"

const (
	nullValue = "google.protobuf.NullValue"
	anyName   = "google.protobuf.Any"
)

// wellKnown returns the function that creates the schema of a type with a special JSON form; nil means the type has
// none. The descriptors of these types are those of this program, see build.
func wellKnown(m protoreflect.MessageDescriptor) func(*schemaBuilder, protoreflect.MessageDescriptor) object {
	if m.FullName().Parent() != wellKnownPackage {
		return nil
	}
	fixed := func(schema object) func(*schemaBuilder, protoreflect.MessageDescriptor) object {
		return func(*schemaBuilder, protoreflect.MessageDescriptor) object { return schema }
	}
	switch m.Name() {
	case "Timestamp":
		return fixed(object{"type": "string", "format": "date-time"})
	case "Duration":
		return fixed(object{"type": "string", "pattern": `^-?[0-9]{1,12}([.][0-9]{1,9})?s$`,
			"description": "Seconds, as in 1.5s."})
	case "FieldMask":
		return fixed(object{"type": "string", "description": "Paths of fields in lowerCamelCase, separated by commas."})
	case "Struct":
		return fixed(object{"type": "object"})
	case "ListValue":
		return fixed(object{"type": "array"})
	case "Value":
		return fixed(object{})
	case "Any":
		return func(b *schemaBuilder, _ protoreflect.MessageDescriptor) object {
			schema := object{"type": "object", "properties": object{"@type": object{"type": "string"}},
				"description": "A message with its type in @type, as in type.googleapis.com/package.Message."}
			if !b.output { // an Any without a message is {}
				schema["required"] = []string{"@type"}
			}
			return schema
		}
	case "BoolValue", "Int32Value", "Int64Value", "UInt32Value", "UInt64Value", "FloatValue", "DoubleValue",
		"StringValue", "BytesValue":
		return func(b *schemaBuilder, m protoreflect.MessageDescriptor) object {
			return b.scalar(m.Fields().ByNumber(1).Kind())
		}
	}
	return nil
}
