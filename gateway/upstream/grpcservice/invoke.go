package grpcservice

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"strings"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"

	"github.com/capgate/capgate/gateway/localgrpc"
	"github.com/capgate/capgate/gateway/upstream"
	"github.com/capgate/capgate/internal/call"
	"github.com/capgate/capgate/internal/lib/grpcerror"
	"github.com/capgate/capgate/internal/telemetry/tracing"
	docpb "github.com/capgate/capgate/proto/selu/capability"
)

// capabilityServer serves one backend as a capability.
type capabilityServer struct {
	docpb.UnimplementedCapabilityServer
	services         *Services
	capability, addr string
}

var errGone = errors.New("the backend is no longer in the fleet")

// Invoke implements docpb.CapabilityServer. The messages of a stream are returned as a list.
func (s *capabilityServer) Invoke(ctx context.Context, req *docpb.InvokeRequest) (*docpb.InvokeResponse, error) {
	b, release, err := s.services.Lookup(s.capability, s.addr)
	if err != nil {
		return nil, localgrpc.NotStarted(err)
	}
	defer release()
	if req.GetToolName() == upstream.DiscoveryTool {
		return b.list(ctx)
	}
	var list bytes.Buffer
	streams, err := b.call(ctx, req, func(text []byte, _ bool) error {
		if list.Len() > 0 {
			list.WriteByte(',')
		}
		if list.Len()+len(text) > b.maxResult() {
			return errTooMuch(b.maxResult())
		}
		list.Write(text)
		return nil
	})
	if err != nil {
		return nil, err
	}
	if streams {
		return &docpb.InvokeResponse{ResultJson: []byte("[" + list.String() + "]")}, nil
	}
	return &docpb.InvokeResponse{ResultJson: list.Bytes()}, nil
}

// StreamInvoke implements docpb.CapabilityServer. Each message of a stream is a JSON document on a line; the last
// chunk is empty. A method without a stream returns one chunk.
func (s *capabilityServer) StreamInvoke(req *docpb.InvokeRequest,
	stream grpc.ServerStreamingServer[docpb.InvokeChunk]) error {
	b, release, err := s.services.Lookup(s.capability, s.addr)
	if err != nil {
		return localgrpc.NotStarted(err)
	}
	defer release()
	streams, err := b.call(stream.Context(), req, func(text []byte, last bool) error {
		if !last {
			text = append(text, '\n')
		}
		return stream.Send(&docpb.InvokeChunk{Data: text, Done: last})
	})
	if err != nil || !streams {
		return err
	}
	return stream.Send(&docpb.InvokeChunk{Done: true})
}

// Healthcheck implements docpb.CapabilityServer. The gateway itself answers those of callers.
func (s *capabilityServer) Healthcheck(ctx context.Context, _ *docpb.HealthRequest) (*docpb.HealthResponse, error) {
	b, release, err := s.services.Lookup(s.capability, s.addr)
	if err != nil {
		return nil, localgrpc.NotStarted(err)
	}
	defer release()
	r, err := s.services.ask(ctx, s.capability, b.conn)
	if err != nil {
		r.Reason = grpcerror.Explain(err)
	}
	return &docpb.HealthResponse{Ready: r.OK, Message: r.Reason}, nil
}

// list returns the tools, and the reasons why methods have none.
func (b *backend) list(ctx context.Context) (*docpb.InvokeResponse, error) {
	definitions, err := b.known(ctx, true)
	err = upstream.WithoutHeaders(err, metadataOf(b.fleet))
	if status.Code(err) == codes.Unavailable {
		return nil, localgrpc.NotStarted(err)
	}
	if err != nil {
		return nil, err
	}
	reply := &docpb.InvokeResponse{ResultJson: definitions.listed}
	localgrpc.SetRest(reply, upstream.LeftOut(definitions.leftOut, metadataOf(b.fleet)))
	return reply, nil
}

// maxResult returns the maximum size of a result as JSON, in bytes.
func (b *backend) maxResult() int { return 2 * b.settings.maxMessage() }

// call calls a tool. Each message of the response is passed to tell as JSON; an error of tell ends the call. streams
// reports whether there may be any number of messages; otherwise there is one, which is the last.
func (b *backend) call(ctx context.Context, req *docpb.InvokeRequest, tell func(text []byte, last bool) error) (
	streams bool, _ error) {
	definitions, err := b.known(ctx, false)
	if err != nil {
		if ctx.Err() != nil {
			return false, upstream.Ended(ctx.Err())
		}
		b.all.Log.Debug("call not sent to a gRPC "+
			"service", "capability", b.fleet.Capability, "backend", b.addr, "error",
			err)
		return false, localgrpc.NotStarted(err)
	}
	t := definitions.tools[req.GetToolName()]
	if t == nil {
		return false, upstream.Rejected(call.NotFound,
			"the service has no method for this tool; grpc_service.methods lists the methods that are tools")
	}
	streams = t.method.IsStreamingServer()
	msg, err := t.message(ctx, req.GetArgsJson())
	if err != nil {
		return streams, b.rejected(ctx, req.GetToolName(), err)
	}
	return streams, b.send(ctx, t, msg, tell)
}

// send makes the call at the backend.
func (b *backend) send(ctx context.Context, t *tool, msg []byte, tell func(text []byte, last bool) error) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel() // ends a stream that was not read to its end
	streams := t.method.IsStreamingServer()
	md, err := b.metadata(ctx)
	if err != nil {
		return localgrpc.NotStarted(err)
	}
	ctx, p := withProgress(metadata.NewOutgoingContext(ctx, md))
	stream, err := b.conn.NewStream(ctx, &grpc.StreamDesc{ServerStreams: streams}, t.path,
		grpc.ForceCodec(localgrpc.Bytes{}))
	if err != nil {
		return b.failure(ctx, p, err)
	}
	if err = stream.SendMsg(&msg); err != nil && !errors.Is(err, io.EOF) { // for EOF, RecvMsg has the status
		return b.failure(ctx, p, err)
	}
	if err = stream.CloseSend(); err != nil {
		return b.failure(ctx, p, err)
	}
	for {
		var data []byte
		err = stream.RecvMsg(&data)
		switch {
		case errors.Is(err, io.EOF) && streams:
			return nil
		case errors.Is(err, io.EOF):
			return upstream.Unusable(call.Internal, "the backend's response has no message")
		case err != nil:
			keepPushback(ctx, stream)
			return b.failure(ctx, p, err)
		}
		text, err := t.result(ctx, data, b.maxResult())
		if err == nil {
			err = tell(text, !streams)
		}
		if err != nil || !streams {
			return err
		}
	}
}

// metadata returns the metadata of a call: the configured one, the assertion of the caller, and the trace.
func (b *backend) metadata(ctx context.Context) (metadata.MD, error) {
	called, err := upstream.WithCaller(ctx)
	if err != nil {
		return nil, err
	}
	md, err := asserted(called, b.all, b.fleet)
	if err != nil {
		return nil, err
	}
	incoming, _ := metadata.FromIncomingContext(ctx)
	if trace := incoming.Get(tracing.Traceparent); len(trace) > 0 {
		md.Set(tracing.Traceparent, trace[0])
	}
	return md, nil
}

// failure returns the error of a call. A status of the backend is returned unchanged.
func (b *backend) failure(ctx context.Context, p *progress, err error) error {
	switch {
	case p.answered.Load() && !strings.HasPrefix(status.Convert(err).Message(), tooLarge):
		return answered(p, err)
	case ctx.Err() != nil:
		return upstream.Ended(ctx.Err())
	case !p.sent.Load():
		b.all.Log.Debug("call not sent to a gRPC "+
			"service", "capability", b.fleet.Capability, "backend", b.addr, "error",
			err)
		return localgrpc.NotStarted(err)
	}
	switch code := status.Code(err); {
	case code == codes.DeadlineExceeded:
		return upstream.Ended(context.DeadlineExceeded)
	case strings.Contains(err.Error(), otherStatus), strings.Contains(err.Error(), otherType):
		return upstream.NotGRPC(code)
	case strings.Contains(err.Error(), byReset):
		return upstream.Lost("the backend aborted the call")
	case code == codes.ResourceExhausted:
		return upstream.Unusable(call.ResourceExhausted, fmt.Sprintf(
			"the backend's message is larger than %d bytes", b.settings.maxMessage()))
	case code == codes.Unavailable:
		return upstream.Lost("the backend was lost during the call")
	}
	return upstream.Unusable(call.Internal, "the backend's response is not gRPC")
}

// answered returns the error of a call with a response of the backend: its status, unchanged, or the error for a
// response that grpc-go cannot read.
func answered(p *progress, err error) error {
	switch st := status.Convert(err); {
	case p.begun.Load() && strings.HasPrefix(st.Message(), "grpc: "),
		strings.HasPrefix(st.Message(), "cardinality violation"), st.Message() == io.ErrUnexpectedEOF.Error():
		return upstream.Unusable(call.Internal, "the backend's response is not a single gRPC message")
	case st.Code() == codes.Unknown && st.Message() == "" && len(st.Proto().GetDetails()) == 0:
		return upstream.Unusable(call.Unknown, "the backend's response has no status, or one without a message")
	}
	return err
}

// Parts of grpc-go's texts for a message that is too large, a stream reset by the backend, and a response that is not
// gRPC. The codes of the latter are those of gRPC's HTTP mapping.
const (
	tooLarge    = "grpc: received message larger than max"
	byReset     = "terminated by RST_STREAM"
	otherStatus = "unexpected HTTP status code received from server"
	otherType   = "content-type"
)

// keepPushback forwards the backend's pushback: whether and when the call may be retried.
func keepPushback(ctx context.Context, stream grpc.ClientStream) {
	if wait := stream.Trailer().Get(pushback); len(wait) > 0 {
		_ = grpc.SetTrailer(ctx, metadata.Pairs(pushback, wait[0])) // an error means that the call has ended
	}
}

const pushback = "grpc-retry-pushback-ms"
