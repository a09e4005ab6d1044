package localgrpc

import (
	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/proto"

	"github.com/capgate/capgate/gateway/relay"
	docpb "github.com/capgate/capgate/proto/selu/capability"
)

// resultField is the number of InvokeResponse.result_json.
const resultField = 1

// Message returns the message of a response, decompressed to at most most bytes, or the error of the call. hold charges
// the memory of the decompressed message before it grows to n bytes. The message may be in the memory of r.
func Message(r *relay.Response, most int, hold func(n int) error) ([]byte, error) {
	if err := StatusError(r.Status); err != nil {
		return nil, err
	}
	if !r.Compressed {
		return r.Message, nil
	}
	return inflate(encodingOf(r.Header), r.Message, most, hold, fault.ofAnswer)
}

// Result returns the result of an Invoke call that accepted no compression, and the tool's own error; empty means
// none. err is the error of the call. The result may be in the memory of r.
func Result(r *relay.Response) (result []byte, toolError string, err error) {
	if err := StatusError(r.Status); err != nil {
		return nil, "", err
	}
	if r.Compressed {
		return nil, "", unsupported.ofAnswer()
	}
	if result, ok := onlyResult(r.Message); ok {
		return result, "", nil
	}
	reply := new(docpb.InvokeResponse)
	if err := proto.Unmarshal(r.Message, reply); err != nil {
		return nil, "", undecodable.ofAnswer()
	}
	return reply.GetResultJson(), reply.GetError(), nil
}

// onlyResult returns the result of an InvokeResponse without other fields. It is a part of msg.
func onlyResult(msg []byte) (result []byte, ok bool) {
	number, typ, n := protowire.ConsumeTag(msg)
	if n < 0 || number != resultField || typ != protowire.BytesType {
		return nil, false
	}
	result, m := protowire.ConsumeBytes(msg[n:])
	return result, m >= 0 && n+m == len(msg)
}
