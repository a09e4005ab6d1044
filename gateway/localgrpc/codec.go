package localgrpc

import (
	"google.golang.org/grpc/encoding"
	_ "google.golang.org/grpc/encoding/proto" // the codec of messages where no other is asked for
	"google.golang.org/grpc/mem"
)

// codec converts messages to bytes and back. Its errors are those of the library, and are not sent to clients.
type codec interface {
	marshal(v any) ([]byte, error)
	unmarshal(data []byte, v any) error
}

// codecV2 adapts a codec of grpc-go.
type codecV2 struct{ encoding.CodecV2 }

// protobuf returns the codec of generated code.
func protobuf() codec { return codecV2{encoding.GetCodecV2("proto")} }

func (c codecV2) marshal(v any) ([]byte, error) {
	buffers, err := c.Marshal(v)
	if err != nil {
		return nil, err
	}
	defer buffers.Free()
	return buffers.Materialize(), nil
}

func (c codecV2) unmarshal(data []byte, v any) error {
	return c.Unmarshal(mem.BufferSlice{mem.SliceBuffer(data)}, v)
}

// codecV1 adapts a codec of grpc-go's older interface.
type codecV1 struct{ encoding.Codec }

func (c codecV1) marshal(v any) ([]byte, error)      { return c.Marshal(v) }
func (c codecV1) unmarshal(data []byte, v any) error { return c.Unmarshal(data, v) }
