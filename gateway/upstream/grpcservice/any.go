package grpcservice

import (
	"bytes"
	"context"
	"errors"
	"strconv"
	"sync"

	"google.golang.org/protobuf/reflect/protoreflect"

	"github.com/capgate/capgate/internal/lib/plainjson"
	"github.com/capgate/capgate/internal/lib/strictjson"
	"github.com/capgate/capgate/internal/toolschema"
)

const (
	emptyName = "google.protobuf.Empty"
	typeURL   = "type.googleapis.com/" // prefix of @type
	maxAny    = 16                     // maximum nesting of Any in Any, because each level is parsed again
	// maxSchemas is the maximum number of cached schemas of messages in Any.
	maxSchemas = 100
)

// checkAny checks the messages in Any in arguments against the schema that a tool with such arguments would have. The
// arguments must otherwise be valid.
func (t *types) checkAny(ctx context.Context, arguments []byte, m protoreflect.MessageDescriptor) error {
	if !bytes.Contains(arguments, []byte("@type")) && !bytes.ContainsRune(arguments, '\\') {
		return nil
	}
	r := strictjson.Get()
	defer r.Release()
	if err := r.Read(arguments, strictjson.Options{Keep: true, Values: toolschema.MaxValues}); err != nil {
		return err
	}
	return (&anyCheck{ctx, t}).message(r.Root(), m, "", 0)
}

// anyCheck is the state of a check.
type anyCheck struct {
	ctx   context.Context //nolint:containedctx // of one check
	types *types
}

// message checks the JSON form of a message, at a pointer and a nesting depth of Any.
func (c *anyCheck) message(v strictjson.Value, m protoreflect.MessageDescriptor, at string, depth int) error {
	if m.FullName() == anyName {
		return c.any(v, at, depth)
	}
	if wellKnown(m) != nil {
		return nil
	}
	for name, member := range v.Members() {
		f := m.Fields().ByJSONName(string(name.Bytes()))
		if f == nil {
			continue
		}
		if err := c.field(member, f, at+"/"+escape(string(name.Bytes())), depth); err != nil {
			return err
		}
	}
	return nil
}

// field checks the value of a field.
func (c *anyCheck) field(v strictjson.Value, f protoreflect.FieldDescriptor, at string, depth int) error {
	switch {
	case f.IsMap() && f.MapValue().Message() != nil:
		for name, member := range v.Members() {
			err := c.message(member, f.MapValue().Message(), at+"/"+escape(string(name.Bytes())), depth)
			if err != nil {
				return err
			}
		}
	case f.IsMap(), f.Message() == nil:
	case f.IsList():
		for i, e := range v.Elements() {
			if err := c.message(e, f.Message(), at+"/"+strconv.Itoa(i), depth); err != nil {
				return err
			}
		}
	default:
		return c.message(v, f.Message(), at, depth)
	}
	return nil
}

// any checks an Any and its message.
func (c *anyCheck) any(v strictjson.Value, at string, depth int) error {
	url, is := v.Get("@type")
	if !is {
		return nil // a value that is not an Any
	}
	found, err := c.types.FindMessageByURL(string(url.Bytes()))
	if err != nil {
		return &toolschema.Violation{Pointer: at + "/@type", Reason: "the type of an Any is unknown"}
	}
	m := found.Descriptor()
	if want := typeURL + string(m.FullName()); string(url.Bytes()) != want {
		return &toolschema.Violation{Pointer: at + "/@type", Reason: "a type must be written like " + want}
	}
	if depth == maxAny {
		return &toolschema.Violation{Pointer: at, Reason: "Any messages are nested deeper than 16 levels"}
	}
	schema, err := c.types.schemas.of(m)
	if err != nil {
		return &toolschema.Violation{Pointer: at, Reason: "the schema of an Any's type is too large"}
	}
	if err := below(at, schema.Check(c.ctx, v.Raw())); err != nil {
		return err
	}
	if value, is := v.Get("value"); is && m.FullName() == anyName {
		return c.any(value, at+"/value", depth+1)
	}
	return c.message(v, m, at, depth+1)
}

// below prefixes the position of an error in a part of a text.
func below(at string, err error) error {
	var wrong *toolschema.Violation
	if !errors.As(err, &wrong) {
		return err
	}
	wrong.Pointer = at + wrong.Pointer
	for i := range wrong.More {
		wrong.More[i].Pointer = at + wrong.More[i].Pointer
	}
	return wrong
}

// anySchemas caches schemas of Any with messages of certain types.
type anySchemas struct {
	mu       sync.Mutex
	compiled map[protoreflect.FullName]*toolschema.Schema
}

// of returns the schema of an Any with a message of a type.
func (s *anySchemas) of(m protoreflect.MessageDescriptor) (*toolschema.Schema, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if known := s.compiled[m.FullName()]; known != nil {
		return known, nil
	}
	text, err := inAny(m)
	if err != nil {
		return nil, err
	}
	schema, err := toolschema.Compile(text)
	if err != nil {
		return nil, err
	}
	if len(s.compiled) >= maxSchemas {
		clear(s.compiled)
	}
	s.compiled[m.FullName()] = schema
	return schema, nil
}

// inAny returns the JSON Schema of an Any with a message of a type: @type and its fields, or for a type with a special
// JSON form, @type and value.
func inAny(m protoreflect.MessageDescriptor) ([]byte, error) {
	b := newSchemaBuilder(m, nil)
	schema, name := b.message(m), object{"type": "string"}
	if wellKnown(m) == nil && m.FullName() != emptyName {
		schema["properties"].(object)["@type"] = name //nolint:forcetypeassert // message sets it
		return b.finish(schema)
	}
	return plainjson.Marshal(object{"type": "object", "properties": object{"@type": name, "value": schema},
		"required": []string{"@type", "value"}, "additionalProperties": false})
}
