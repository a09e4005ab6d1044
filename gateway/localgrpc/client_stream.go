package localgrpc

import (
	"context"
	"errors"
	"io"
	"math"
	"sync"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"

	"github.com/capgate/capgate/gateway/relay"
)

// clientStream implements grpc.ClientStream on a relay.ClientStream.
type clientStream struct {
	ByteStream
	ctx        context.Context
	cancel     context.CancelFunc
	codec      codec
	authority  string
	oneMessage bool // the method is not client-streaming
	oneAnswer  bool // the method is not server-streaming
	answered   bool // the only response message was received
	headers    []*metadata.MD
	trailers   []*metadata.MD
	onFinish   []func(error)
	once       sync.Once // for finish
}

var _ grpc.ClientStream = (*clientStream)(nil)

// Context implements grpc.ClientStream.
func (s *clientStream) Context() context.Context { return s.ctx }

// SendMsg implements grpc.ClientStream. It returns io.EOF if the call has ended; RecvMsg has its status.
func (s *clientStream) SendMsg(m any) error {
	data, err := s.codec.marshal(m)
	if err != nil {
		return s.finish(undecodable.ofRequest())
	}
	if err = s.Send(data); err != nil && s.oneMessage {
		return nil // as in grpc-go: otherwise generated code of such methods would return io.EOF instead of the status
	}
	return err
}

// Header implements grpc.ClientStream.
func (s *clientStream) Header() (metadata.MD, error) {
	return s.header(), nil
}

// header returns the header of the response; nil if the call has ended without one.
func (s *clientStream) header() metadata.MD {
	fields, come := s.stream.Header()
	if !come {
		return nil
	}
	md := metadataOf(fields)
	md["content-type"] = []string{"application/grpc"}
	return md
}

// Trailer implements grpc.ClientStream.
func (s *clientStream) Trailer() metadata.MD { return metadataOf(s.stream.Trailer()) }

// RecvMsg implements grpc.ClientStream.
func (s *clientStream) RecvMsg(m any) error {
	if s.oneAnswer && s.answered {
		return io.EOF
	}
	data, err := s.Receive(nil)
	if err == io.EOF { //nolint:errorlint // the error of Receive itself
		_ = s.finish(nil)
		return io.EOF
	}
	if err == nil && s.codec.unmarshal(data, m) != nil {
		err = undecodable.ofAnswer()
	}
	if err == nil && s.oneAnswer {
		s.answered = true
		return s.end()
	}
	if err != nil {
		return s.finish(err)
	}
	return nil
}

// end reads the rest of a response after its only message, which must be just the status.
func (s *clientStream) end() error {
	_, err := s.stream.Recv(nil)
	switch {
	case err == nil:
		err = several.ofAnswer()
	case errors.Is(err, io.EOF):
		err = StatusError(s.stream.Status())
	default:
		err = errorOf(err)
	}
	return s.finish(err)
}

// finish ends the stream for any reason, and returns err.
func (s *clientStream) finish(err error) error {
	s.once.Do(func() {
		for _, md := range s.headers {
			*md = s.header()
		}
		for _, md := range s.trailers {
			*md = s.Trailer()
		}
		s.cancel()
		for _, f := range s.onFinish {
			f(err)
		}
	})
	return err
}

// StatusError returns a status of the relay as an error of grpc-go; nil for OK.
func StatusError(st relay.Status) error {
	switch {
	case codes.Code(st.Code) == codes.OK:
		return nil
	case st.Local:
		return ended(st)
	}
	return &received{st}
}

// codeOf converts a code to the type of google.rpc.Status.
func codeOf(code uint32) int32 { return int32(min(code, math.MaxInt32)) }
