package translate

import (
	"context"

	"google.golang.org/grpc"

	"github.com/capgate/capgate/gateway/dialect"
	"github.com/capgate/capgate/gateway/filter"
	"github.com/capgate/capgate/gateway/localgrpc"
)

// Filter makes the translator serve calls that must be translated.
type Filter struct{ server *localgrpc.Server }

// New returns a Filter. server must come from NewServer.
func New(server *localgrpc.Server) Filter { return Filter{server} }

// Admit implements filter.Filter.
func (f Filter) Admit(c *filter.Call, _ *filter.Stateless) filter.Step {
	if c.Attempt.Mode != dialect.Convert {
		return filter.Continue
	}
	c.Attempt.Translated = true
	c.Stream.SetHeader(filter.CapabilityHeader, c.Info.Capability)
	return c.ServeBy(f.server, nil)
}

// Done implements filter.Filter.
func (Filter) Done(*filter.Call, *filter.Stateless, *filter.Result) {}

// NewServer returns the server that translates calls between the dialects, and continues them. Calls wait in the queue
// once their first message has arrived. refuse returns the error that refuses a call.
func NewServer(q filter.Queue, maxMessage int, refuse dialect.Refuse) *localgrpc.Server {
	queued := queued{q, refuse}
	s := &localgrpc.Server{Name: "translator", Unary: queued.unary, Stream: queued.stream,
		MaxMessage: maxMessage, Codec: dialect.Codec()}
	dialect.Register(s, localgrpc.Continue(maxMessage), refuse)
	return s
}

// queued makes calls wait in the fair queue.
type queued struct {
	queue  filter.Queue
	refuse dialect.Refuse
}

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
	wait func(context.Context) error // nil after the wait
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

// wait waits for the turn of the call of ctx.
func (q queued) wait(ctx context.Context) error {
	served := filter.ServedOf(ctx)
	err := q.queue.Wait(ctx, served.Call.Tenant, "")
	if err != nil && ctx.Err() == nil {
		return q.refuse(ctx, filter.TooMany(served.Caller))
	}
	return err
}
