package relay

import (
	"context"
	"errors"
	"fmt"
	"io"
)

// ServerStream is a call served by the process, for the function passed to Serve. One goroutine may receive while
// another sends; both must end before the function returns.
type ServerStream struct{ end serverEnd }

// Context ends with the call: because of its caller, its deadline, or the return of the serving function.
func (s *ServerStream) Context() context.Context { return s.end.ctx }

// Path returns the request's :path with the Handler's changes.
func (s *ServerStream) Path() string { return s.end.path }

// Authority returns the request's :authority.
func (s *ServerStream) Authority() string { return s.end.authority }

// Header returns the request's headers as for an upstream, without pseudo-headers, te and grpc-timeout; content-type
// is only included if it is not application/grpc. The result must not be changed.
func (s *ServerStream) Header() []Field { return s.end.header }

// ErrMessageTooLarge is the error for a message that is longer than HTTP2.MaxFirstMessage.
var ErrMessageTooLarge = errors.New("relay: the message is too large")

// Recv waits for the next message, which it stores in buf if it fits. It returns io.EOF at the end of the request, the
// error of Context if the call has ended before, or ErrMessageTooLarge.
func (s *ServerStream) Recv(buf []byte) (Message, error) {
	m, err := s.end.receive(buf)
	switch {
	case err == nil:
		return m, nil
	case errors.Is(err, ErrMessageTooLarge):
		return m, err
	case !s.end.whole():
		return m, s.end.why()
	case errors.Is(err, io.ErrUnexpectedEOF):
		return m, fmt.Errorf("the request ends within a message: %w", err)
	}
	return m, io.EOF
}

// SendHeader sends the response's headers, once. Without it, the response has only the headers of the relay.
func (s *ServerStream) SendHeader(header ...Field) error {
	if err := checkFields(header); err != nil {
		return err
	}
	if !s.end.setHeader(header) {
		return errors.New("relay: the response's headers were already sent")
	}
	s.end.sh.post(&s.end.event)
	return nil
}

// Send sends a message, which it does not retain. It blocks while flow control requires. The error is that of Context:
// the call has ended.
func (s *ServerStream) Send(m Message) error {
	s.end.setHeader(nil)
	if err := s.end.localEnd.send(m, false); err != nil {
		return s.end.why()
	}
	return nil
}

// SetTrailer adds trailers, which are sent with the status after the messages.
func (s *ServerStream) SetTrailer(trailer ...Field) error {
	if err := checkFields(trailer); err != nil {
		return err
	}
	s.end.mu.Lock()
	defer s.end.mu.Unlock()
	s.end.reply.trailer = append(s.end.reply.trailer, trailer...)
	return nil
}

// setHeader returns false if headers are already set.
func (e *serverEnd) setHeader(header []Field) bool {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.reply.headed {
		return false
	}
	e.reply.headed, e.reply.header = true, header
	return true
}

func (e *serverEnd) whole() bool {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.requestEnd
}

// why returns the reason for the end of a call.
func (e *serverEnd) why() error {
	if err := e.ctx.Err(); err != nil {
		return err
	}
	return context.Canceled
}

// checkFields rejects fields that would break the response.
func checkFields(fields []Field) error {
	for _, f := range fields {
		tag := classify(f.Name, f.Value)
		switch tag & nameMask {
		case nameGRPCStatus, nameGRPCMessage, nameGRPCDetails:
			tag = tagBad // they belong to Status
		}
		if tag&(tagBad|tagPseudo) != 0 {
			return fmt.Errorf("relay: %q cannot be a header or trailer of a response", f.Name)
		}
	}
	return nil
}
