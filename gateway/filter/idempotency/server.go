package idempotency

import (
	"context"

	spb "google.golang.org/genproto/googleapis/rpc/status"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"

	"github.com/capgate/capgate/gateway/dialect"
	"github.com/capgate/capgate/gateway/filter"
	"github.com/capgate/capgate/gateway/localgrpc"
	"github.com/capgate/capgate/internal/call"
	"github.com/capgate/capgate/internal/idempotency"
	"github.com/capgate/capgate/internal/lib/strictproto"
)

// replayedHeader is metadata of a stored response.
const replayedHeader = "idempotency-replayed"

// ServerConfig configures a Server. All fields but Service are required.
type ServerConfig struct {
	Service    *idempotency.Service // nil means calls with a key are rejected
	Queue      filter.Queue
	MaxMessage int                                        // bytes
	Refuse     func(context.Context, *call.Refusal) error // returns the error that refuses a call
}

// Server answers calls with an idempotency key: with a stored response, or by continuing the call and storing the
// response. A running call continues after its client has left. Calls without a key have no cost.
type Server struct {
	cfg    ServerConfig
	server *localgrpc.Server
	onward grpc.ClientConnInterface
}

// NewServer returns a Server; nil if there is no Service.
func NewServer(cfg ServerConfig) *Server {
	if cfg.Service == nil {
		return nil
	}
	s := &Server{cfg: cfg, onward: localgrpc.Continue(cfg.MaxMessage)}
	s.server = localgrpc.NewBytesServer(s.serve, cfg.MaxMessage)
	return s
}

// serve serves a call. It is a grpc.StreamHandler.
func (s *Server) serve(_ any, stream grpc.ServerStream) error {
	ctx := stream.Context()
	v := filter.ServedOf(ctx)
	k := v.Value.(*keyed)
	var msg []byte
	if err := stream.RecvMsg(&msg); err != nil {
		return err
	}
	r, err := requestOf(v, k, msg)
	if err != nil {
		return s.cfg.Refuse(ctx, strictproto.Refuse(err, filter.Malformed))
	}
	switch err := s.cfg.Queue.Wait(ctx, v.Call.Tenant, ""); {
	case err != nil && ctx.Err() != nil:
		return err
	case err != nil:
		return s.cfg.Refuse(ctx, filter.TooMany(v.Caller))
	}
	var said reply // metadata of the backend's response
	answer, repeat, refusal := s.cfg.Service.Do(ctx, r, func(ctx context.Context) ([]byte, idempotency.Outcome) {
		return s.carryOut(ctx, v, msg, &said)
	})
	if refusal != nil {
		return s.cfg.Refuse(ctx, refusal)
	}
	if repeat {
		k.replayed.Store(true)
		said = reply{header: metadata.Pairs(replayedHeader, "true"), trailer: metadata.Pairs(replayedHeader, "true")}
	}
	stream.SetTrailer(said.trailer)
	text, err := opened(answer)
	if err != nil {
		return err
	}
	if err := stream.SetHeader(said.header); err != nil {
		return err
	}
	return stream.SendMsg(&text)
}

// requestOf returns the service's request for a call.
func requestOf(v *filter.Served, k *keyed, msg []byte) (*idempotency.Request, error) {
	shape, read := v.Call.Dialect, dialect.ReadKey
	switch shape {
	case call.Legacy:
		read = dialect.ReadLegacyKey
	case call.Live:
		shape = call.Doc // the stored response has the same encoding
	}
	key, err := read(msg)
	if err != nil {
		return nil, err
	}
	return &idempotency.Request{
		Tenant: v.Call.Tenant, User: v.Call.User, Agent: v.Call.Agent, Key: k.key,
		Method: v.Call.Method.String() + " " + shape.String(), Capability: v.Call.Capability, Tool: string(key.Tool),
		Session: v.Call.Session,
		Args:    key.Args, Only: k.only, UID: v.Caller.Settings.UID(),
	}, nil
}

// reply is the metadata of a response.
type reply struct{ header, trailer metadata.MD }

// carryOut continues a call to its backend, even if its client leaves meanwhile.
func (s *Server) carryOut(ctx context.Context, v *filter.Served, msg []byte, said *reply) (answer []byte,
	how idempotency.Outcome) {
	done := make(chan struct{})
	err := localgrpc.Detach(ctx, func(alive context.Context) {
		defer close(done)
		if deadline, has := ctx.Deadline(); has {
			var cancel context.CancelFunc
			alive, cancel = context.WithDeadline(alive, deadline)
			defer cancel()
		}
		answer, how = s.invoke(alive, v, msg, said)
	})
	if err != nil {
		return nil, idempotency.NotStarted // the client left before
	}
	<-done
	return answer, how
}

func (s *Server) invoke(ctx context.Context, v *filter.Served, msg []byte, said *reply) ([]byte, idempotency.Outcome) {
	ctx, opts := dialect.Outgoing(ctx)
	var header, trailer metadata.MD
	var text []byte
	opts = append(opts, grpc.ForceCodec(localgrpc.Bytes{}), grpc.Header(&header), grpc.Trailer(&trailer))
	err := s.onward.Invoke(ctx, v.Call.Path, &msg, &text, opts...)
	said.header, said.trailer = dialect.Custom(header), dialect.Custom(trailer)
	end := ending{how: idempotency.NotStarted}
	if v.Continued.Load() {
		end = <-v.Value.(*keyed).ended
	}
	if err == nil {
		return append([]byte{packedMessage}, text...), end.how
	}
	if end.answered { // the response was lost on the way
		end.how = idempotency.InDoubt
	}
	st := status.Convert(err)
	packed, err := proto.Marshal(st.Proto())
	if err != nil {
		return nil, idempotency.InDoubt // impossible for a status of grpc-go
	}
	return append([]byte{packedStatus}, packed...), end.how
}

// First byte of a stored response.
const (
	packedMessage = 'm' // a message follows
	packedStatus  = 's' // a google.rpc.Status follows
)

// opened returns the message of a stored response, or its error.
func opened(answer []byte) ([]byte, error) {
	if len(answer) == 0 {
		return nil, errPacked
	}
	if answer[0] == packedMessage {
		return answer[1:], nil
	}
	var st spb.Status
	if answer[0] != packedStatus || proto.Unmarshal(answer[1:], &st) != nil || codes.Code(st.GetCode()) == codes.OK {
		return nil, errPacked
	}
	return nil, status.FromProto(&st).Err()
}

var errPacked = status.Error(codes.Internal, "a stored response cannot be read")
