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

// clientStream is a relay.ClientStream as a grpc.ClientStream.
type clientStream struct {
	stream     *relay.ClientStream
	ctx        context.Context
	cancel     context.CancelFunc
	codec      codec
	max        int // bytes of an answer; 0 means any
	authority  string
	oneMessage bool          // the method is not client-streaming
	oneAnswer  bool          // the method is not server-streaming
	answered   bool          // by the one message
	hold       relay.Account // charged with messages, copies of each; nil means nothing is
	held       int64         // of the longest message
	headers    []*metadata.MD
	trailers   []*metadata.MD
	onFinish   []func(error)
	once       sync.Once // finish
}

var _ grpc.ClientStream = (*clientStream)(nil)

// Context implements grpc.ClientStream.
func (s *clientStream) Context() context.Context { return s.ctx }

// SendMsg implements grpc.ClientStream. It returns io.EOF where the call has ended; RecvMsg has its status.
func (s *clientStream) SendMsg(m any) error {
	data, err := s.codec.marshal(m)
	if err != nil {
		return s.finish(undecodable.ofRequest())
	}
	if err = s.stream.Send(relay.Message{Data: data}); err != nil && s.oneMessage {
		return nil // as grpc-go: generated code of such methods would return io.EOF instead of the status
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

// header returns the header of the answer; nil where the call has ended without.
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

// Copies of a message that are held at once: as it came, decoded, and as it is written to a client. A message of up to
// freeMessage bytes is not charged.
const (
	copies      = 3
	freeMessage = 16 << 10
)

// reserve charges the longest message so far: the one before was written when the next one is received.
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

// decode reads a message of the answer.
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

// end reads what follows the one message of an answer, which is to be the status alone.
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

// finish ends the stream, for whatever reason, and returns it.
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

// StatusError returns a status of the relay as grpc-go's; nil for OK.
func StatusError(st relay.Status) error {
	switch {
	case codes.Code(st.Code) == codes.OK:
		return nil
	case st.Local:
		return ended(st)
	}
	return &received{st}
}

// codeOf returns a code as google.rpc.Status has it.
func codeOf(code uint32) int32 { return int32(min(code, math.MaxInt32)) }
