package localgrpc

import (
	"errors"

	"google.golang.org/grpc"
)

// NewBytesServer returns a Server whose methods are all served by serve, with messages as unchanged *[]byte.
func NewBytesServer(serve grpc.StreamHandler, maxMessage int) *Server {
	return &Server{Name: "services", Unknown: serve, AsBytes: true, MaxMessage: maxMessage}
}

// Bytes is a codec for messages that are forwarded unchanged as *[]byte.
type Bytes struct{}

// Name implements encoding.Codec. It is empty, so the content type is application/grpc.
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

var errBytes = errors.New("localgrpc: the codec Bytes only supports *[]byte")
