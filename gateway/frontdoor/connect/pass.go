package connect

import (
	"context"
	"errors"
	"io"

	"connectrpc.com/connect"
	"google.golang.org/grpc"
	"google.golang.org/grpc/metadata"

	"github.com/capgate/capgate/gateway/frontdoor/bodybudget"
	"github.com/capgate/capgate/internal/call"
)

// passUnary makes a unary call.
func (h *Handler) passUnary(ctx context.Context, req *connect.Request[message]) (*connect.Response[message], error) {
	t := targetFrom(ctx)
	t.begun = true
	out, err := outgoing(ctx, req.Header())
	if err == nil {
		err = t.decode(req.Msg)
	}
	if err != nil {
		return nil, rejected(ctx, err)
	}
	var header, trailer metadata.MD
	resp := connect.NewResponse(new(message))
	if err := h.conn.Invoke(out, t.path, req.Msg, resp.Msg,
		t.options(grpc.Header(&header), grpc.Trailer(&trailer))...); err != nil {
		failed := errorOf(err)
		addTo(failed.Meta(), header)
		addTo(failed.Meta(), trailer)
		return nil, failed
	}
	addTo(resp.Header(), header)
	addTo(resp.Trailer(), trailer)
	return resp, said(t.encode(ctx, resp.Msg), call.Sent)
}

// passStream makes a call of any kind. A message is forwarded before the next one is read.
func (h *Handler) passStream(ctx context.Context, client *connect.BidiStream[message, message]) error {
	t := targetFrom(ctx)
	t.begun = true
	out, err := outgoing(ctx, client.RequestHeader())
	if err != nil {
		return rejected(ctx, err)
	}
	ctx, cancel := context.WithCancel(out) // ends the call on every return
	defer cancel()
	stream, err := h.conn.NewStream(ctx, &grpc.StreamDesc{ClientStreams: true, ServerStreams: true}, t.path,
		t.options()...)
	if err != nil {
		return errorOf(err)
	}
	if err := t.ask(client, stream, bodybudget.FromContext(ctx)); err != nil {
		return err
	}
	return t.answer(ctx, client, stream)
}

// ask sends the client's messages until their end or the end of the call.
func (t *target) ask(client *connect.BidiStream[message, message], stream grpc.ClientStream,
	held *bodybudget.Reservation) error {
	for progress := call.NotSent; ; progress = call.Sent {
		m, err := client.Receive()
		if errors.Is(err, io.EOF) {
			break
		}
		if err == nil {
			err = t.decode(m)
		} else {
			err = t.unread(connect.CodeOf(err))
		}
		if err != nil {
			return said(err, progress)
		}
		if stream.SendMsg(m) != nil { // the response has the reason
			return nil
		}
		held.SetBuffered(len(m.data)) // the last message may not be sent yet, but the one before is
	}
	return stream.CloseSend()
}

// answer sends the response to the client.
func (t *target) answer(ctx context.Context, client *connect.BidiStream[message, message],
	stream grpc.ClientStream) error {
	if header, err := stream.Header(); err == nil && len(header) > 0 {
		addTo(client.ResponseHeader(), header)
		if err := client.Send(nil); err != nil { // clients receive the headers before the first message
			return err
		}
	}
	for {
		m := new(message)
		err := stream.RecvMsg(m)
		if err != nil {
			addTo(client.ResponseTrailer(), stream.Trailer())
			if errors.Is(err, io.EOF) {
				return nil
			}
			return errorOf(err)
		}
		if err = said(t.encode(ctx, m), call.Sent); err == nil {
			err = client.Send(m)
		}
		if err != nil {
			return err
		}
	}
}
