package localgrpc

import (
	"context"
	"errors"
	"sync"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"

	"github.com/capgate/capgate/gateway/relay"
)

// serverStream implements grpc.ServerStream on a relay.ServerStream.
type serverStream struct {
	stream *relay.ServerStream
	server *Server
	ctx    context.Context
	path   string
	header metadata.MD
	sent   bool // the header was sent

	sending sync.Mutex // held while a message is sent
	over    bool       // the handler has returned; guarded by sending
}

var _ grpc.ServerStream = (*serverStream)(nil)

func newServerStream(stream *relay.ServerStream, s *Server) *serverStream {
	md := metadataOf(stream.Header())
	md[":authority"] = []string{stream.Authority()}
	ctx := context.WithValue(stream.Context(), handleKey{}, stream.Handle())
	return &serverStream{stream: stream, server: s, path: stream.Path(), ctx: metadata.NewIncomingContext(ctx, md)}
}

// finish waits until another goroutine has sent its message, because the status must follow it. Later messages are
// rejected.
func (s *serverStream) finish() {
	s.sending.Lock()
	defer s.sending.Unlock()
	s.over = true
}

// Context implements grpc.ServerStream.
func (s *serverStream) Context() context.Context { return s.ctx }

// SetHeader implements grpc.ServerStream.
func (s *serverStream) SetHeader(md metadata.MD) error {
	if s.sent {
		return status.Error(codes.Internal, "the header of the response was already sent")
	}
	s.header = metadata.Join(s.header, md)
	return nil
}

// SendHeader implements grpc.ServerStream.
func (s *serverStream) SendHeader(md metadata.MD) error {
	if err := s.SetHeader(md); err != nil {
		return err
	}
	s.sent = true
	return s.stream.SendHeader(fieldsOf(nil, s.header)...)
}

// SetTrailer implements grpc.ServerStream.
func (s *serverStream) SetTrailer(md metadata.MD) {
	_ = s.stream.SetTrailer(fieldsOf(nil, md)...) // invalid trailers are dropped, as in grpc-go
}

// SendMsg implements grpc.ServerStream.
func (s *serverStream) SendMsg(m any) error {
	s.sending.Lock()
	defer s.sending.Unlock()
	if s.over {
		return status.Error(codes.Internal, "the handler of the call has returned")
	}
	if !s.sent {
		if err := s.SendHeader(nil); err != nil {
			return err
		}
	}
	data, err := s.marshal(m)
	if err != nil {
		return undecodable.ofAnswer()
	}
	return s.stream.Send(relay.Message{Data: data})
}

func (s *serverStream) marshal(m any) ([]byte, error) {
	if raw, ok := m.(*[]byte); ok && s.server.AsBytes {
		return *raw, nil
	}
	return s.server.codec().marshal(m)
}

// RecvMsg implements grpc.ServerStream.
func (s *serverStream) RecvMsg(m any) error {
	msg, err := s.stream.Recv(nil)
	if errors.Is(err, relay.ErrMessageTooLarge) {
		return tooLong.ofRequest()
	}
	if err != nil {
		return err
	}
	data := msg.Data
	if msg.Compressed {
		name := encodingOf(s.stream.Header())
		if data, err = inflate(name, data, s.server.MaxMessage, nil, fault.ofRequest); err != nil {
			return err
		}
	}
	if raw, ok := m.(*[]byte); ok && s.server.AsBytes {
		*raw = data
		return nil
	}
	if s.server.codec().unmarshal(data, m) != nil {
		return undecodable.ofRequest()
	}
	return nil
}
