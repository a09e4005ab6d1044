package admin

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"strings"

	"github.com/grpc-ecosystem/grpc-gateway/v2/runtime"
	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"
)

// marshaler is the JSON of the services: names as in the protos, and lists that are always present. Other fields are
// left out when they are empty, as an empty limit is not a limit of 0.
type marshaler struct{ runtime.JSONPb }

func newMarshaler() *marshaler {
	return &marshaler{runtime.JSONPb{MarshalOptions: protojson.MarshalOptions{UseProtoNames: true}}}
}

// Marshal implements runtime.Marshaler.
func (m *marshaler) Marshal(v any) ([]byte, error) {
	msg, ok := v.(proto.Message)
	if !ok {
		return m.JSONPb.Marshal(v)
	}
	var b bytes.Buffer
	err := m.append(&b, msg.ProtoReflect())
	return b.Bytes(), err
}

// NewEncoder implements runtime.Marshaler.
func (m *marshaler) NewEncoder(w io.Writer) runtime.Encoder {
	return runtime.EncoderFunc(func(v any) error {
		text, err := m.Marshal(v)
		if err != nil {
			return err
		}
		_, err = w.Write(append(text, '\n'))
		return err
	})
}

// append appends a message of this API with its lists, and any other as protojson does.
func (m *marshaler) append(b *bytes.Buffer, msg protoreflect.Message) error {
	if !strings.HasPrefix(string(msg.Descriptor().FullName()), "capgate.v1.") {
		return m.compact(b, msg, false)
	}
	b.WriteByte('{')
	fields, first := msg.Descriptor().Fields(), true
	for i := range fields.Len() {
		f := fields.Get(i)
		if !f.IsList() && !msg.Has(f) {
			continue
		}
		if !first {
			b.WriteByte(',')
		}
		first = false
		if err := m.appendField(b, msg, f); err != nil {
			return err
		}
	}
	b.WriteByte('}')
	return nil
}

func (m *marshaler) appendField(b *bytes.Buffer, msg protoreflect.Message, f protoreflect.FieldDescriptor) error {
	own := f.Kind() == protoreflect.MessageKind && !f.IsMap()
	switch {
	case f.IsList() && (own || !msg.Has(f)):
		fmt.Fprintf(b, `"%s":[`, f.Name())
		for i, list := 0, msg.Get(f).List(); i < list.Len(); i++ {
			if i > 0 {
				b.WriteByte(',')
			}
			if err := m.append(b, list.Get(i).Message()); err != nil {
				return err
			}
		}
		b.WriteByte(']')
		return nil
	case own:
		fmt.Fprintf(b, `"%s":`, f.Name())
		return m.append(b, msg.Get(f).Message())
	}
	alone := msg.New()
	alone.Set(f, msg.Get(f))
	return m.compact(b, alone, true)
}

// compact appends a message without the blanks that protojson puts in at random, and, as members, without its braces.
func (m *marshaler) compact(b *bytes.Buffer, msg protoreflect.Message, members bool) error {
	text, err := m.MarshalOptions.Marshal(msg.Interface())
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
