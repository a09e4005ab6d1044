package grpcservice

import (
	"errors"

	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/reflect/protoreflect"
)

var (
	errLarge = errors.New("the backend's message is too large as JSON; grpc_service.max_message bounds it")
	errDeep  = errors.New("the backend's message is nested too deep")
)

// measure bounds what a message costs before it is decoded: two bytes may be a message with a thousand fields, and
// each has a name in JSON.
type measure struct {
	types     *types
	left      int // bytes of JSON, about
	overheads map[protoreflect.FullName]int
}

// message measures a message of a type.
func (m *measure) message(data []byte, of protoreflect.MessageDescriptor, depth int) error {
	if depth > maxDepth {
		return errDeep
	}
	if err := m.take(m.overhead(of)); err != nil {
		return err
	}
	if of.FullName() == anyName {
		return m.any(data, depth)
	}
	for len(data) > 0 {
		number, kind, n := protowire.ConsumeTag(data)
		if n < 0 {
			return errNoMessage
		}
		data = data[n:]
		size := protowire.ConsumeFieldValue(number, kind, data)
		if size < 0 {
			return errNoMessage
		}
		if f := of.Fields().ByNumber(number); f != nil {
			if err := m.field(data[:size], kind, f, depth); err != nil {
				return err
			}
		}
		data = data[size:]
	}
	return nil
}

// field measures one occurrence of a field.
func (m *measure) field(value []byte, kind protowire.Type, f protoreflect.FieldDescriptor, depth int) error {
	if err := m.take(len(f.JSONName()) + perValue); err != nil {
		return err
	}
	switch kind {
	case protowire.BytesType:
		content, n := protowire.ConsumeBytes(value)
		if n < 0 {
			return errNoMessage
		}
		switch f.Kind() {
		case protoreflect.MessageKind:
			return m.message(content, f.Message(), depth+1)
		case protoreflect.StringKind, protoreflect.BytesKind:
			return m.take(len(content))
		}
		return m.take(perValue * len(content)) // packed
	case protowire.StartGroupType:
		if f.Kind() == protoreflect.GroupKind {
			content, n := protowire.ConsumeGroup(f.Number(), value)
			if n < 0 {
				return errNoMessage
			}
			return m.message(content, f.Message(), depth+1)
		}
	}
	return nil
}

// any measures the message in an Any.
func (m *measure) any(data []byte, depth int) error {
	var url, content []byte
	for len(data) > 0 {
		number, kind, n := protowire.ConsumeTag(data)
		if n < 0 {
			return errNoMessage
		}
		size := protowire.ConsumeFieldValue(number, kind, data[n:])
		if size < 0 {
			return errNoMessage
		}
		if kind == protowire.BytesType {
			text, _ := protowire.ConsumeBytes(data[n:])
			switch number {
			case 1:
				url = text
			case 2:
				content = text
			}
		}
		data = data[n+size:]
	}
	if err := m.take(len(url)); err != nil {
		return err
	}
	found, err := m.types.FindMessageByURL(string(url))
	if err != nil { // nothing of it is decoded
		return nil
	}
	return m.message(content, found.Descriptor(), depth+1)
}

// perValue is about how many bytes a short value takes in JSON, with its quotes and comma.
const perValue = 8

// overhead is about how many bytes the fields of a message take in JSON that are not set.
func (m *measure) overhead(of protoreflect.MessageDescriptor) int {
	if n, known := m.overheads[of.FullName()]; known {
		return n
	}
	n := perValue
	for i := range of.Fields().Len() {
		if f := of.Fields().Get(i); !f.HasPresence() {
			n += len(f.JSONName()) + perValue
		}
	}
	m.overheads[of.FullName()] = n
	return n
}

func (m *measure) take(n int) error {
	if m.left -= n; m.left < 0 {
		return errLarge
	}
	return nil
}
