package localgrpc

import (
	"google.golang.org/grpc"
	"google.golang.org/grpc/metadata"
)

// transportStream lets handlers of unary methods set headers and trailers with grpc.SetHeader and grpc.SetTrailer.
type transportStream struct{ stream *serverStream }

var _ grpc.ServerTransportStream = transportStream{}

// Method implements grpc.ServerTransportStream.
func (t transportStream) Method() string { return t.stream.path }

// SetHeader implements grpc.ServerTransportStream.
func (t transportStream) SetHeader(md metadata.MD) error { return t.stream.SetHeader(md) }

// SendHeader implements grpc.ServerTransportStream.
func (t transportStream) SendHeader(md metadata.MD) error { return t.stream.SendHeader(md) }

// SetTrailer implements grpc.ServerTransportStream.
func (t transportStream) SetTrailer(md metadata.MD) error {
	t.stream.SetTrailer(md)
	return nil
}
