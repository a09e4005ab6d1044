package localgrpc

import (
	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/proto"
)

// restField is the number of a field of InvokeResponse and InvokeChunk beyond those of the capability protocol. Code
// in the process that stands for a backend sets it if the caller requests it.
const restField = 1000

// SetRest adds the rest of a backend's response, which the message has no fields for; nil means none.
func SetRest(m proto.Message, rest []byte) {
	if rest != nil {
		m.ProtoReflect().SetUnknown(protowire.AppendBytes(protowire.AppendTag(nil, restField, protowire.BytesType),
			rest))
	}
}

// Rest returns what SetRest has added to an encoded message, or to the unknown fields of one; nil means none. It is a
// part of fields.
func Rest(fields []byte) (rest []byte) {
	for len(fields) > 0 {
		number, typ, n := protowire.ConsumeField(fields)
		if n < 0 {
			return nil
		}
		if number == restField && typ == protowire.BytesType {
			_, _, tag := protowire.ConsumeTag(fields)
			rest, _ = protowire.ConsumeBytes(fields[tag:])
		}
		fields = fields[n:]
	}
	return rest
}
