package grpcservice

import (
	"context"
	"errors"

	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/reflect/protoreflect"
)

var (
	errLarge = errors.New("the backend's message is too large as JSON")
	errDeep  = errors.New("the backend's message is nested too deeply")
	// errNested is returned before decoders parse the same bytes repeatedly.
	errNested = errors.New("the backend's message has too much data in nested groups or Any")
)

// measure limits the cost of a message before it is decoded: two bytes may be a message with a thousand fields, each
// with a name in JSON.
type measure struct {
	types     *types // of messages in Any; nil means an Any is treated like any other message
	json      budget // approximate bytes of JSON
	scans     budget // bytes that are read again for each level of groups and of Any
	overheads map[protoreflect.FullName]int
}

// maxScans is the maximum number of bytes that are read again, as a multiple of a message's size.
const maxScans = 16

// newMeasure returns the measure for messages of at most most bytes as JSON.
func newMeasure(ctx context.Context, t *types, most int) *measure {
	return &measure{types: t, json: budget{ctx: ctx, left: most, empty: errLarge},
		scans: budget{ctx: ctx, left: maxScans * most, empty: errNested}, overheads: map[protoreflect.FullName]int{}}
}

// message measures a message of a type.
func (m *measure) message(data []byte, of protoreflect.MessageDescriptor, depth int) error {
	if depth > maxDepth {
		return errDeep
	}
	if err := m.json.take(m.overhead(of)); err != nil {
		return err
	}
	if m.types != nil && of.FullName() == anyName {
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
		if kind == protowire.StartGroupType { // it was read to its end, as decoders do
			if err := m.scans.take(size); err != nil {
				return err
			}
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
	if err := m.json.take(len(f.JSONName()) + perValue); err != nil {
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
			return m.json.take(len(content))
		}
		return m.json.take(perValue * len(content)) // packed
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
	if err := m.json.take(len(url)); err != nil {
		return err
	}
	if err := m.scans.take(len(content)); err != nil { // each level has a copy
		return err
	}
	found, err := m.types.FindMessageByURL(string(url))
	if err != nil { // nothing of it is decoded
		return nil
	}
	return m.message(content, found.Descriptor(), depth+1)
}

// perValue is the approximate length of a short value in JSON, with its quotes and comma.
const perValue = 8

// overhead returns the approximate length of a message's unset fields in JSON.
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
