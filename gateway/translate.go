package gateway

import (
	"context"
	"errors"

	"google.golang.org/grpc"

	"github.com/capgate/capgate/gateway/dialect"
	"github.com/capgate/capgate/gateway/filter"
	"github.com/capgate/capgate/gateway/frontdoor/fairqueue"
	"github.com/capgate/capgate/gateway/localgrpc"
)

// translate has calls that have to be translated served by the translator.
type translate struct{ h *handler }

// Admit implements filter.Filter.
func (f translate) Admit(_ *filter.Call, t *callState) filter.Step {
	if t.Attempt.Mode != dialect.Convert {
		return filter.Continue
	}
	t.Attempt.Translated = true
	t.Stream.SetHeader(filter.CapabilityHeader, t.Info.Capability)
	return t.serveBy(f.h.translator)
}

// Done implements filter.Filter.
func (translate) Done(*filter.Call, *callState, *filter.Result) {}

// newTranslator makes the server that translates calls between the dialects, and continues them. Calls pass the fair
// queue when their first message is there.
func newTranslator(q *fairqueue.Queue, onward grpc.ClientConnInterface) *localgrpc.Server {
	queued := queued{q}
	s := &localgrpc.Server{Name: "translator", Unknown: noMethod, Unary: queued.unary, Stream: queued.stream,
		MaxMessage: maxMessage, Codec: dialect.Codec()}
	dialect.Register(s, onward, refuse)
	return s
}

// queued has calls wait in the fair queue.
type queued struct{ queue *fairqueue.Queue }

func (q queued) unary(ctx context.Context, req any, _ *grpc.UnaryServerInfo, next grpc.UnaryHandler) (any, error) {
	if err := q.wait(ctx); err != nil {
		return nil, err
	}
	return next(ctx, req)
}

func (q queued) stream(srv any, s grpc.ServerStream, _ *grpc.StreamServerInfo, next grpc.StreamHandler) error {
	return next(srv, &queuedStream{ServerStream: s, wait: q.wait})
}

type queuedStream struct {
	grpc.ServerStream
	wait func(context.Context) error // nil: it has waited
}

// RecvMsg implements grpc.ServerStream.
func (s *queuedStream) RecvMsg(m any) error {
	err := s.ServerStream.RecvMsg(m)
	if wait := s.wait; err == nil && wait != nil {
		s.wait = nil
		err = wait(s.Context())
	}
	return err
}

// wait waits for the turn of the call that ctx is of.
func (q queued) wait(ctx context.Context) error {
	v := servedOf(ctx)
	err := q.queue.Wait(ctx, v.call.Tenant, "")
	if errors.Is(err, fairqueue.ErrFull) {
		return refuse(ctx, filter.TooMany(v.caller))
	}
	return err
}
