package dialect

import (
	"google.golang.org/grpc/encoding"
	"google.golang.org/grpc/encoding/proto"
	"google.golang.org/grpc/mem"

	"github.com/capgate/capgate/internal/call"
)

// chunk is a received message of an upload. A malformed chunk must not be an error of the codec, because grpc-go would
// end the call with its own error.
type chunk[M any] struct {
	message   *M
	malformed bool
}

func (c *chunk[M]) read(data mem.BufferSlice, codec encoding.CodecV2) {
	c.message = new(M)
	c.malformed = codec.Unmarshal(data, c.message) != nil
}

// codec is the protobuf codec, which also decodes chunks.
type codec struct{ encoding.CodecV2 }

func newCodec() codec { return codec{encoding.GetCodecV2(proto.Name)} }

// Unmarshal implements encoding.CodecV2.
func (c codec) Unmarshal(data mem.BufferSlice, v any) error {
	if chunk, ok := v.(interface {
		read(mem.BufferSlice, encoding.CodecV2)
	}); ok {
		chunk.read(data, c.CodecV2)
		return nil
	}
	return c.CodecV2.Unmarshal(data, v)
}

var refusedChunk = &call.Refusal{Kind: call.InvalidArgument, Reason: "REQUEST_MALFORMED",
	Message: "a message of the upload is not a well-formed chunk of the caller's dialect, so it cannot be translated " +
		"to the backend's"}
