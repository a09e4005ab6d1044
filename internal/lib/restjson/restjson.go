package restjson

import (
	"bytes"
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"google.golang.org/genproto/googleapis/api/annotations"
	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"
)

// Marshal encodes a message.
func Marshal(m proto.Message) ([]byte, error) {
	var b bytes.Buffer
	err := appendMessage(&b, m.ProtoReflect())
	return b.Bytes(), err
}

// appendMessage appends a message of this API with its lists, and any other as protojson does.
func appendMessage(b *bytes.Buffer, msg protoreflect.Message) error {
	if !strings.HasPrefix(string(msg.Descriptor().FullName()), "capgate.v1.") {
		return compact(b, msg, false)
	}
	b.WriteByte('{')
	fields, first := msg.Descriptor().Fields(), true
	for i := range fields.Len() {
		f := fields.Get(i)
		if !msg.Has(f) && !always(f) {
			continue
		}
		if !first {
			b.WriteByte(',')
		}
		first = false
		if err := appendField(b, msg, f); err != nil {
			return err
		}
	}
	b.WriteByte('}')
	return nil
}

func appendField(b *bytes.Buffer, msg protoreflect.Message, f protoreflect.FieldDescriptor) error {
	own := f.Kind() == protoreflect.MessageKind && !f.IsMap()
	switch {
	case f.IsList() && (own || !msg.Has(f)):
		fmt.Fprintf(b, `"%s":[`, f.Name())
		for i, list := 0, msg.Get(f).List(); i < list.Len(); i++ {
			if i > 0 {
				b.WriteByte(',')
			}
			if err := appendMessage(b, list.Get(i).Message()); err != nil {
				return err
			}
		}
		b.WriteByte(']')
		return nil
	case own:
		fmt.Fprintf(b, `"%s":`, f.Name())
		return appendMessage(b, msg.Get(f).Message())
	case !msg.Has(f):
		fmt.Fprintf(b, `"%s":%s`, f.Name(), empty(f))
		return nil
	}
	alone := msg.New()
	alone.Set(f, msg.Get(f))
	return compact(b, alone, true)
}

// always reports whether an empty field is present.
func always(f protoreflect.FieldDescriptor) bool {
	behavior, _ := proto.GetExtension(f.Options(), annotations.E_FieldBehavior).([]annotations.FieldBehavior)
	if f.IsList() {
		return !slices.Contains(behavior, annotations.FieldBehavior_OPTIONAL)
	}
	return f.Kind() != protoreflect.MessageKind && slices.Contains(behavior, annotations.FieldBehavior_REQUIRED)
}

// empty returns the JSON of a field's zero value.
func empty(f protoreflect.FieldDescriptor) string {
	switch f.Kind() {
	case protoreflect.BoolKind:
		return "false"
	case protoreflect.Int32Kind, protoreflect.DoubleKind:
		return "0"
	default: // a text
		return `""`
	}
}

// compact appends a message without the blanks that protojson puts in at random, and, as members, without its braces.
func compact(b *bytes.Buffer, msg protoreflect.Message, members bool) error {
	text, err := (protojson.MarshalOptions{UseProtoNames: true}).Marshal(msg.Interface())
	if err != nil {
		return err
	}
	var c bytes.Buffer
	if err := json.Compact(&c, text); err != nil {
		return err
	}
	if text = c.Bytes(); members {
		text = text[1 : len(text)-1]
	}
	b.Write(text)
	return nil
}
