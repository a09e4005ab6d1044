package engine

import (
	"google.golang.org/protobuf/encoding/protowire"

	"github.com/capgate/capgate/internal/lib/strictproto"
)

// Shapes of the messages that the gateway reads. Shapes of responses only have the relevant fields.
var (
	messageRequest = strictproto.Shape{1: strictproto.String, 2: strictproto.String, 3: strictproto.Int32,
		4: strictproto.String}
	approvalRequest = strictproto.Shape{1: strictproto.String, 2: strictproto.String, 3: strictproto.Bool}
	historyRequest  = strictproto.Shape{1: strictproto.String, 2: strictproto.Int32}
	listRequest     = strictproto.Shape{1: strictproto.Int32, 2: strictproto.Int32}

	sessionInfo   = strictproto.Shape{1: strictproto.String, fieldMode: strictproto.Int32}
	chatMessage   = strictproto.Shape{2: strictproto.String}
	pipelineEvent = strictproto.Shape{fieldEventSession: strictproto.String, fieldEventType: strictproto.Int32,
		fieldActionStarted: strictproto.Bytes,
		fieldApproval:      strictproto.Message, fieldPipelineError: strictproto.Message}
	actionStarted = strictproto.Shape{2: strictproto.String}
	list          = strictproto.Shape{1: strictproto.Messages}
)

// fields iterates over the fields of a message that are in its shape.
func fields(msg []byte, shape *strictproto.Shape, see func(*strictproto.Reader)) error {
	r := strictproto.Read(msg, shape)
	for r.Next() {
		if r.Kind != strictproto.Unknown {
			see(&r)
		}
	}
	return r.Err()
}

// text returns a string field of a message; empty means unset.
func text(msg []byte, shape *strictproto.Shape, field uint32) (value []byte, err error) {
	err = fields(msg, shape, func(r *strictproto.Reader) {
		if r.Number == field {
			value = r.Value
		}
	})
	return value, err
}

// each iterates over the messages of a list.
func each(msg []byte, see func(msg []byte)) error {
	return fields(msg, &list, func(r *strictproto.Reader) { see(r.Value) })
}

func appendMessage(to []byte, field protowire.Number, msg []byte) []byte {
	return protowire.AppendBytes(protowire.AppendTag(to, field, protowire.BytesType), msg)
}
