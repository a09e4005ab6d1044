package localgrpc

import (
	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/proto"
)

// restField is the number of a field of InvokeResponse and InvokeChunk beyond those of the capability protocol. Code
// in the process that stands for a backend sets it, for callers that ask for it.
const restField = 1000

// SetRest adds to a message what its backend says besides the fields that it has; nil means nothing.
func SetRest(m proto.Message, rest []byte) {
	if rest != nil {
		m.ProtoReflect().SetUnknown(protowire.AppendBytes(protowire.AppendTag(nil, restField, protowire.BytesType),
			rest))
	}
}

// Rest returns what SetRest has added to an encoded message, or is among the unknown fields of one; nil means nothing.
// It is part of fields.
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
