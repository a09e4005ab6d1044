package connect

import (
	"context"
	"errors"
	"io"
	"net/http"

	"google.golang.org/grpc/codes"

	"github.com/capgate/capgate/gateway/frontdoor/bodybudget"
	"github.com/capgate/capgate/gateway/localgrpc"
	"github.com/capgate/capgate/gateway/relay"
	"github.com/capgate/capgate/internal/call"
)

// Calls makes calls.
type Calls struct {
	Unary func(ctx context.Context, q *relay.Request, msg []byte, r *relay.Response) // as localgrpc.Conn.Unary
	Open  func(ctx context.Context, q relay.Request) (Stream, error)                 // as localgrpc.Conn.Open
}

// Stream is a call of any kind, as localgrpc.ByteStream.
type Stream interface {
	Send(msg []byte) error
	CloseSend() error
	Fields() (header []relay.Field, come bool)
	Receive(buf []byte) ([]byte, error)
	Ready() bool
	TrailerFields() []relay.Field
	Cancel()
	Reject()
}

// Over returns the Calls over a connection.
func Over(conn *localgrpc.Conn) Calls {
	return Calls{Unary: conn.Unary, Open: func(ctx context.Context, q relay.Request) (Stream, error) {
		s, err := conn.Open(ctx, q)
		if err != nil {
			return nil, err
		}
		return s, nil
	}}
}

// serveStream serves a request with envelopes, of a method that has streams or is unknown. The call starts after the
// first message, so that a request whose first message is rejected never reaches a backend.
func (h *Handler) serveStream(w http.ResponseWriter, r *http.Request, t *target) {
	ctx, in := r.Context(), h.framesOf(t)
	q, err := h.streamRequest(t, r.Header)
	if err != nil {
		t.reject(w, r, err)
		return
	}
	msg, end := t.next(ctx, &in)
	s, err := h.open(ctx, t, q, end)
	if err != nil {
		t.reject(w, r, err)
		return
	}
	defer s.Cancel()
	err = t.send(ctx, &in, s, msg, end)
	t.abandon(w, r)
	out := newReply(w, t)
	if err != nil {
		failed := failureOf(err, call.Sent)
		if failed.status.Code() == codes.InvalidArgument && ctx.Err() == nil {
			s.Reject()
		}
		_ = out.end(failed, nil) // an error means that the client has disconnected
		return
	}
	t.receive(ctx, out, s)
}

// streamRequest returns the request of a call with the metadata of a header.
func (h *Handler) streamRequest(t *target, header http.Header) (relay.Request, error) {
	if err := t.checkSchema(); err != nil { // there may be no message to decode
		return relay.Request{}, err
	}
	q := relay.Request{Path: t.path, Authority: t.authority, MaxMessage: h.cfg.MaxMessage,
		Header: []relay.Field{{Name: "grpc-accept-encoding", Value: "gzip"}}}
	err := eachMetadata(header, func(name, value string) {
		q.Header = append(q.Header, relay.Field{Name: name, Value: value})
	})
	return q, err
}

// open starts the call after its first message was read. end is the error of that message, or io.EOF.
func (h *Handler) open(ctx context.Context, t *target, q relay.Request, end error) (Stream, error) {
	switch {
	case end != nil && !errors.Is(end, io.EOF):
		return nil, end
	case isLate(ctx, nil):
		return nil, t.unread(ctx, nil)
	}
	return h.calls.Open(ctx, q)
}

// framesOf returns the messages of a request with envelopes.
func (h *Handler) framesOf(t *target) frames {
	in := frames{in: t.body, gzip: t.gzip, most: h.cfg.MaxMessage, end: flagConnectEnd}
	if t.isWeb() {
		in.end = flagWebTrailers
	}
	return in
}

// next returns the next message of a request as protobuf, or io.EOF after the last.
func (t *target) next(ctx context.Context, in *frames) ([]byte, error) {
	msg, err := in.next()
	if errors.Is(err, io.EOF) {
		return nil, io.EOF
	}
	if err != nil {
		return nil, t.unread(ctx, err)
	}
	if !t.json {
		return msg, nil
	}
	return t.decode(nil, msg)
}

// send sends the messages of a request until their end, or that of the call. msg and err are the first message.
func (t *target) send(ctx context.Context, in *frames, s Stream, msg []byte, err error) error {
	held := bodybudget.FromContext(ctx)
	for ; err == nil; msg, err = t.next(ctx, in) {
		if s.Send(msg) != nil { // the response has the reason
			return nil
		}
		held.SetBuffered(len(msg)) // the last message may not be sent yet, but the one before is
	}
	if !errors.Is(err, io.EOF) {
		return err
	}
	_ = s.CloseSend()
	return nil
}

// maxReused is the maximum size of the memory that is reused for the messages of a response.
const maxReused = 64 << 10

// receive sends the response to the client. An error of the reply means that the client has disconnected, or reads
// nothing.
func (t *target) receive(ctx context.Context, out *reply, s Stream) {
	if header, come := s.Fields(); come {
		out.begin(header)
		if !s.Ready() && out.flush() != nil { // clients receive the headers before the first message
			return
		}
	}
	var buf []byte
	for {
		msg, err := s.Receive(buf)
		if errors.Is(err, io.EOF) {
			_ = out.end(nil, s.TrailerFields())
			return
		}
		if err != nil {
			_ = out.end(failureOf(err, call.Sent), s.TrailerFields())
			return
		}
		text, err := t.encode(ctx, nil, msg)
		if err != nil {
			_ = out.end(failureOf(err, call.Sent), nil)
			return
		}
		if out.message(text) != nil || (out.full() || !s.Ready()) && out.flush() != nil {
			return
		}
		if buf = msg[:0]; cap(buf) > maxReused {
			buf = nil
		}
	}
}
