package localgrpc

import (
	"context"
	"errors"
	"io"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/capgate/capgate/gateway/relay"
)

// ByteStream is a call whose messages are bytes. One goroutine may receive while another sends.
type ByteStream struct {
	stream *relay.ClientStream
	max    int           // bytes of a response message; 0 means no limit
	hold   relay.Account // charged for copies of messages; optional
	held   int64         // bytes charged for the longest message
}

// Open starts a call, like relay.Relay.Open. Messages of the response are decompressed, and charged to q.Hold while
// they are copied.
func (c *Conn) Open(ctx context.Context, q relay.Request) (*ByteStream, error) {
	s := &ByteStream{}
	if err := c.openBytes(ctx, q, s); err != nil {
		return nil, err
	}
	return s, nil
}

func (c *Conn) openBytes(ctx context.Context, q relay.Request, s *ByteStream) (err error) {
	if c.Caller != nil {
		c.Caller(ctx, &q)
	}
	s.max = q.MaxMessage
	s.hold, q.Hold = q.Hold, nil
	if s.stream, err = c.begin(ctx, q); err != nil {
		return errorOf(err)
	}
	return nil
}

// Send sends a message. It returns io.EOF if the call has ended; Receive has its status.
func (s *ByteStream) Send(msg []byte) error { return s.stream.Send(relay.Message{Data: msg}) }

// CloseSend ends the messages of the request.
func (s *ByteStream) CloseSend() error {
	s.stream.CloseSend()
	return nil
}

// Fields waits for the header of the response. come is false if the call has ended without one.
func (s *ByteStream) Fields() (header []relay.Field, come bool) { return s.stream.Header() }

// TrailerFields returns the trailers after Receive has returned an error.
func (s *ByteStream) TrailerFields() []relay.Field { return s.stream.Trailer() }

// Ready reports whether Receive returns at once.
func (s *ByteStream) Ready() bool { return s.stream.Ready() }

// Cancel ends the call.
func (s *ByteStream) Cancel() { s.stream.Cancel() }

// Reject ends the call because the next message of its client is malformed.
func (s *ByteStream) Reject() { s.stream.Reject() }

// Receive returns the next message, which it stores in buf if it fits. It returns io.EOF at the end of a call with
// status OK.
func (s *ByteStream) Receive(buf []byte) ([]byte, error) {
	msg, err := s.stream.Recv(buf)
	if errors.Is(err, io.EOF) {
		if err = StatusError(s.stream.Status()); err == nil {
			err = io.EOF
		}
		return nil, err
	}
	if err != nil {
		return nil, errorOf(err)
	}
	if err := s.reserve(len(msg.Data)); err != nil {
		return nil, err
	}
	if !msg.Compressed {
		return msg.Data, nil
	}
	header, _ := s.stream.Header()
	return inflate(encodingOf(header), msg.Data, s.max, s.reserve, fault.ofAnswer)
}

// Number of copies of a message that exist at once: as received, decoded, and as written to a client. Messages of up
// to freeMessage bytes are not charged.
const (
	copies      = 3
	freeMessage = 16 << 10
)

// reserve charges the longest message so far: the previous message was written before the next one is received.
func (s *ByteStream) reserve(n int) error {
	more := int64(copies*n) - s.held
	if s.hold == nil || n <= freeMessage || more <= 0 {
		return nil
	}
	if !s.hold.Reserve(more) {
		if by, ok := s.hold.(interface{ Exceeded() error }); ok {
			return by.Exceeded()
		}
		return status.Error(codes.ResourceExhausted, "there is not enough memory for the response")
	}
	s.held += more
	return nil
}
