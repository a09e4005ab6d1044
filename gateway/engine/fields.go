package engine

import (
	"google.golang.org/protobuf/encoding/protowire"
)

// fields walks through the fields of a message. It is false for what is no message.
func fields(msg []byte, see func(num protowire.Number, typ protowire.Type, value []byte)) bool {
	for len(msg) > 0 {
		num, typ, n := protowire.ConsumeTag(msg)
		if n < 0 {
			return false
		}
		m := protowire.ConsumeFieldValue(num, typ, msg[n:])
		if m < 0 {
			return false
		}
		see(num, typ, msg[n:n+m])
		msg = msg[n+m:]
	}
	return true
}

// text is the value of a field of bytes, as fields has it.
func text(value []byte) []byte {
	b, _ := protowire.ConsumeBytes(value)
	return b
}

func number(value []byte) uint64 {
	v, _ := protowire.ConsumeVarint(value)
	return v
}

// Text is what a message has in a field of text, of which the last one counts; "" where it has none. It is
// false for what is no message.
func Text(msg []byte, field int32) (value []byte, ok bool) {
	ok = fields(msg, func(num protowire.Number, typ protowire.Type, v []byte) {
		if num == protowire.Number(field) && typ == protowire.BytesType {
			value = text(v)
		}
	})
	return value, ok
}

// each walks through the messages that a message has in a field.
func each(msg []byte, field protowire.Number, see func(msg []byte)) bool {
	return fields(msg, func(num protowire.Number, typ protowire.Type, v []byte) {
		if num == field && typ == protowire.BytesType {
			see(text(v))
		}
	})
}

func appendMessage(to []byte, field protowire.Number, msg []byte) []byte {
	return protowire.AppendBytes(protowire.AppendTag(to, field, protowire.BytesType), msg)
}
