package connect

import (
	"context"
	"errors"
	"io"
	"net/http"

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

// serveStream serves a request with envelopes.
func (h *Handler) serveStream(w http.ResponseWriter, r *http.Request, t *target) {
	a := newReply(w, t)
	s, failed := h.open(r, t)
	if failed != nil {
		_ = a.end(failed, nil) // an error means that the client has disconnected
		return
	}
	defer s.Cancel()
	if err := h.ask(r.Context(), t, s); err != nil {
		_ = a.end(err, nil)
		return
	}
	t.answer(r.Context(), a, s)
}

// open starts the call.
func (h *Handler) open(r *http.Request, t *target) (Stream, *failure) {
	ctx := r.Context()
	q := relay.Request{Path: t.path, Authority: t.authority, MaxMessage: h.cfg.MaxMessage,
		Header: []relay.Field{{Name: "grpc-accept-encoding", Value: "gzip"}}}
	err := eachMetadata(r.Header, func(name, value string) {
		q.Header = append(q.Header, relay.Field{Name: name, Value: value})
	})
	if err != nil {
		return nil, rejected(ctx, err)
	}
	s, err := h.calls.Open(ctx, q)
	if err != nil {
		return nil, failureOf(err, call.NotSent)
	}
	return s, nil
}

// ask sends the client's messages until their end or the end of the call.
func (h *Handler) ask(ctx context.Context, t *target, s Stream) *failure {
	in := frames{in: t.body, gzip: t.gzip, most: h.cfg.MaxMessage, end: flagConnectEnd}
	if t.isWeb() {
		in.end = flagWebTrailers
	}
	held := bodybudget.FromContext(ctx)
	for progress := call.NotSent; ; progress = call.Sent {
		msg, err := in.next()
		if errors.Is(err, io.EOF) {
			break
		}
		if err == nil {
			msg, err = t.decode(msg)
		} else {
			err = t.unread(ctx, err)
		}
		if err != nil {
			return failureOf(err, progress)
		}
		if s.Send(msg) != nil { // the response has the reason
			return nil
		}
		held.SetBuffered(len(msg)) // the last message may not be sent yet, but the one before is
	}
	_ = s.CloseSend()
	return nil
}

// maxReused is the maximum size of the memory that is reused for the messages of a response.
const maxReused = 64 << 10

// answer sends the response to the client. An error of the reply means that the client has disconnected, or reads
// nothing.
func (t *target) answer(ctx context.Context, a *reply, s Stream) {
	if header, come := s.Fields(); come {
		a.begin(header)
		if !s.Ready() && a.flush() != nil { // clients receive the headers before the first message
			return
		}
	}
	var buf []byte
	for {
		msg, err := s.Receive(buf)
		if errors.Is(err, io.EOF) {
			_ = a.end(nil, s.TrailerFields())
			return
		}
		if err != nil {
			_ = a.end(failureOf(err, call.Sent), s.TrailerFields())
			return
		}
		text, err := t.encode(ctx, msg)
		if err != nil {
			_ = a.end(failureOf(err, call.Sent), nil)
			return
		}
		if a.message(text) != nil || (a.full() || !s.Ready()) && a.flush() != nil {
			return
		}
		if buf = msg[:0]; cap(buf) > maxReused {
			buf = nil
		}
	}
}
