package localgrpc

import (
	"context"
	"errors"
	"io"

	"google.golang.org/grpc"
	"google.golang.org/grpc/metadata"

	"github.com/capgate/capgate/gateway/relay"
)

// DefaultAuthority is the default :authority of calls.
const DefaultAuthority = "capgate.internal"

// Conn makes calls over local streams. It is safe for concurrent use and need not be closed.
type Conn struct {
	Relay *relay.Relay
	// Caller adds the caller of ctx to a request: Peer and Value; optional.
	Caller func(context.Context, *relay.Request)
	// MaxMessage is the default maximum size of a response message, in bytes. Call options override it.
	MaxMessage int

	continues bool // see Continue
}

// Invoke implements grpc.ClientConnInterface.
func (c *Conn) Invoke(ctx context.Context, method string, args, reply any, opts ...grpc.CallOption) error {
	s, err := c.open(ctx, method, opts)
	if err != nil {
		return err
	}
	defer s.cancel()
	if err := s.SendMsg(args); err != nil && !errors.Is(err, io.EOF) {
		return err
	}
	s.stream.CloseSend()
	err = s.RecvMsg(reply)
	if err == nil {
		err = s.end()
	} else if errors.Is(err, io.EOF) {
		err = missing.ofAnswer()
	}
	return err
}

// Unary makes a unary call, like relay.Relay.Unary.
func (c *Conn) Unary(ctx context.Context, q *relay.Request, msg []byte, r *relay.Response) {
	if c.Caller != nil {
		c.Caller(ctx, q)
	}
	c.Relay.Unary(ctx, *q, msg, r)
}

// NewStream implements grpc.ClientConnInterface. The stream ends when RecvMsg returns an error, or ctx ends.
func (c *Conn) NewStream(ctx context.Context, desc *grpc.StreamDesc, method string,
	opts ...grpc.CallOption) (grpc.ClientStream, error) {
	s, err := c.open(ctx, method, opts)
	if err != nil {
		return nil, err
	}
	s.oneMessage, s.oneAnswer = !desc.ClientStreams, !desc.ServerStreams
	return s, nil
}

func (c *Conn) open(ctx context.Context, method string, opts []grpc.CallOption) (*clientStream, error) {
	s := &clientStream{authority: DefaultAuthority, codec: protobuf()}
	s.max = c.MaxMessage
	for _, o := range opts {
		if err := s.apply(o); err != nil {
			return nil, err
		}
	}
	md, _ := metadata.FromOutgoingContext(ctx)
	q := relay.Request{Path: method, Authority: s.authority, Header: fieldsOf(acceptedEncodings(), md),
		MaxMessage: s.max}
	s.ctx, s.cancel = context.WithCancel(ctx)
	if err := c.openBytes(s.ctx, q, &s.ByteStream); err != nil {
		s.cancel()
		return nil, err
	}
	return s, nil
}

func (c *Conn) begin(ctx context.Context, q relay.Request) (*relay.ClientStream, error) {
	if !c.continues {
		return c.Relay.Open(ctx, q)
	}
	h, served := ctx.Value(handleKey{}).(relay.Handle)
	if !served {
		return nil, relay.ErrHandleDead
	}
	return h.Continue(ctx, q)
}
