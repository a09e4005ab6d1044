package localgrpc

import (
	"errors"

	"google.golang.org/grpc"
)

// NewBytesServer makes a Server all of whose methods serve answers, message by message as they are: *[]byte.
func NewBytesServer(serve grpc.StreamHandler, maxMessage int) *Server {
	return &Server{Name: "services", Unknown: serve, AsBytes: true, MaxMessage: maxMessage}
}

// Bytes is a codec for messages that are passed on as they are: *[]byte.
type Bytes struct{}

// Name implements encoding.Codec. The content type says no more than gRPC.
func (Bytes) Name() string { return "" }

// Marshal implements encoding.Codec.
func (Bytes) Marshal(v any) ([]byte, error) {
	if b, ok := v.(*[]byte); ok {
		return *b, nil
	}
	return nil, errBytes
}

// Unmarshal implements encoding.Codec.
func (Bytes) Unmarshal(data []byte, v any) error {
	b, ok := v.(*[]byte)
	if !ok {
		return errBytes
	}
	*b = append([]byte(nil), data...)
	return nil
}

var errBytes = errors.New("localgrpc: Bytes passes on bytes alone")
