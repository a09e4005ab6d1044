package localgrpc

import (
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/encoding"
	_ "google.golang.org/grpc/encoding/proto" // the codec of messages where no other is asked for
	"google.golang.org/grpc/mem"
	"google.golang.org/grpc/status"
)

// codec turns messages into bytes and back. Its errors are those of grpc-go, by which the translator knows them.
type codec interface {
	marshal(v any) ([]byte, error)
	unmarshal(data []byte, v any) error
}

// codecV2 is a codec of grpc-go.
type codecV2 struct{ encoding.CodecV2 }

// protobuf is the codec of generated code.
func protobuf() codec { return codecV2{encoding.GetCodecV2("proto")} }

func (c codecV2) marshal(v any) ([]byte, error) {
	buffers, err := c.Marshal(v)
	if err != nil {
		return nil, status.Errorf(codes.Internal, "grpc: error while marshaling: %v", err)
	}
	defer buffers.Free()
	return buffers.Materialize(), nil
}

func (c codecV2) unmarshal(data []byte, v any) error {
	if err := c.Unmarshal(mem.BufferSlice{mem.SliceBuffer(data)}, v); err != nil {
		return status.Errorf(codes.Internal, "grpc: failed to unmarshal the received message: %v", err)
	}
	return nil
}

// codecV1 is a codec of grpc-go's older interface.
type codecV1 struct{ encoding.Codec }

func (c codecV1) marshal(v any) ([]byte, error) {
	data, err := c.Marshal(v)
	if err != nil {
		return nil, status.Errorf(codes.Internal, "grpc: error while marshaling: %v", err)
	}
	return data, nil
}

func (c codecV1) unmarshal(data []byte, v any) error {
	if err := c.Unmarshal(data, v); err != nil {
		return status.Errorf(codes.Internal, "grpc: failed to unmarshal the received message: %v", err)
	}
	return nil
}
