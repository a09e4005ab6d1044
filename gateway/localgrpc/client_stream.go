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
	"google.golang.org/grpc/status"

	"github.com/capgate/capgate/gateway/relay"
)

// clientStream implements grpc.ClientStream on a relay.ClientStream.
type clientStream struct {
	stream     *relay.ClientStream
	ctx        context.Context
	cancel     context.CancelFunc
	codec      codec
	max        int // bytes of a response message; 0 means no limit
	authority  string
	oneMessage bool          // the method is not client-streaming
	oneAnswer  bool          // the method is not server-streaming
	answered   bool          // the only response message was received
	hold       relay.Account // charged for copies of messages; optional
	held       int64         // bytes charged for the longest message
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
	if err = s.stream.Send(relay.Message{Data: data}); err != nil && s.oneMessage {
		return nil // as in grpc-go: otherwise generated code of such methods would return io.EOF instead of the status
	}
	return err
}

// CloseSend implements grpc.ClientStream.
func (s *clientStream) CloseSend() error {
	s.stream.CloseSend()
	return nil
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
	msg, err := s.stream.Recv(nil)
	switch {
	case errors.Is(err, io.EOF):
		if err = StatusError(s.stream.Status()); err == nil {
			_ = s.finish(nil)
			return io.EOF
		}
	case err != nil:
		err = errorOf(err)
	default:
		if err = s.reserve(len(msg.Data)); err == nil {
			err = s.decode(msg, m)
		}
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

// Number of copies of a message that exist at once: as received, decoded, and as written to a client. Messages of up
// to freeMessage bytes are not charged.
const (
	copies      = 3
	freeMessage = 16 << 10
)

// reserve charges the longest message so far: the previous message was written before the next one is received.
func (s *clientStream) reserve(n int) error {
	more := int64(copies*n) - s.held
	if s.hold == nil || n <= freeMessage || more <= 0 {
		return nil
	}
	if !s.hold.Reserve(more) {
		if by, ok := s.hold.(interface{ Exceeded() error }); ok {
			return by.Exceeded()
		}
		return status.Error(codes.ResourceExhausted, "there is no room for the response")
	}
	s.held += more
	return nil
}

// decode decodes a message of the response.
func (s *clientStream) decode(msg relay.Message, m any) error {
	data := msg.Data
	if msg.Compressed {
		header, _ := s.stream.Header()
		var wrong *fault
		if data, wrong = inflate(encodingOf(header), data, s.max); wrong != nil {
			return wrong.ofAnswer()
		}
	}
	if s.codec.unmarshal(data, m) != nil {
		return undecodable.ofAnswer()
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
