package dialect

import (
	"fmt"

	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/proto"

	docpb "github.com/capgate/capgate/proto/selu/capability"
)

// resultField is the number of InvokeResponse.result_json.
const resultField = 1

// ReadResult returns the result of an InvokeResponse, and the tool's own error; "": none. The result may be part of msg.
func ReadResult(msg []byte) (result []byte, toolError string, err error) {
	if result, ok := onlyResult(msg); ok {
		return result, "", nil
	}
	reply := new(docpb.InvokeResponse)
	if err := proto.Unmarshal(msg, reply); err != nil {
		return nil, "", fmt.Errorf("unmarshal a message: %w", err)
	}
	return reply.GetResultJson(), reply.GetError(), nil
}

// onlyResult returns the result of an InvokeResponse that has no other field. It is part of msg.
func onlyResult(msg []byte) (result []byte, ok bool) {
	number, typ, n := protowire.ConsumeTag(msg)
	if n < 0 || number != resultField || typ != protowire.BytesType {
		return nil, false
	}
	result, m := protowire.ConsumeBytes(msg[n:])
	return result, m >= 0 && n+m == len(msg)
}
