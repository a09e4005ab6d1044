package rest

import (
	"context"

	"google.golang.org/grpc"
	"google.golang.org/grpc/metadata"

	capgatepb "github.com/capgate/capgate/proto/capgate/v1"
	docpb "github.com/capgate/capgate/proto/selu/capability"
)

// server is capgate.v1.Gateway for requests that the decoder made: args and config are
// in their bytes fields. It is called in-process only.
type server struct {
	capgatepb.UnimplementedGatewayServer
	capabilities docpb.CapabilityClient
}

// maxReply is the largest answer taken from a capability, in bytes.
const maxReply = 16 << 20

// Invoke makes one call of a tool, in the doc dialect. An error's status is the gateway's
// or the capability's, unchanged.
func (s *server) Invoke(ctx context.Context, req *capgatepb.InvokeRequest) (*capgatepb.InvokeResponse, error) {
	made, _ := metadata.FromIncomingContext(ctx)
	reply, err := s.capabilities.Invoke(withMetadata(ctx, made), &docpb.InvokeRequest{
		ToolName:     req.GetToolName(),
		ArgsJson:     req.GetArgsJson(),
		ConfigJson:   req.GetConfigJson(),
		SessionId:    req.GetSessionId(),
		CapabilityId: req.GetCapabilityId(),
		ThreadId:     req.GetThreadId(),
	}, grpc.MaxCallRecvMsgSize(maxReply))
	if err != nil {
		return nil, err
	}
	return &capgatepb.InvokeResponse{ResultJson: reply.GetResultJson(), Error: reply.GetError()}, nil
}
