package playground

import (
	"errors"
	"io"
	"strconv"

	"google.golang.org/grpc"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/peer"

	"github.com/capgate/capgate/gateway/filter"
	capgatepb "github.com/capgate/capgate/proto/capgate/v1"
	docpb "github.com/capgate/capgate/proto/selu/capability"
)

// InvokeTool implements capgatepb.PlaygroundServer.
func (s *server) InvokeTool(req *capgatepb.InvokeToolRequest,
	to grpc.ServerStreamingServer[capgatepb.InvokeToolResponse]) error {
	ctx := to.Context()
	in := &callAs{Tenant: req.GetTenant(), User: req.GetUser(), Agent: req.GetAgent(), Session: req.GetSession(),
		Capability: req.GetCapability(), Tool: req.GetTool(), Arguments: []byte(req.GetArguments()),
		Approval: req.GetApprovalId(), Wait: int(req.GetWait())}
	if err := in.check(); err != nil {
		return err
	}
	identity, err := s.identity(ctx, in)
	if err != nil {
		return err
	}
	md := metadata.Pairs(filter.CapabilityHeader, in.Capability)
	if in.Approval != "" {
		md.Set("x-approval-id", in.Approval)
	}
	if in.Wait > 0 {
		md.Set("x-approval-wait", strconv.Itoa(in.Wait))
	}
	address := ""
	if p, ok := peer.FromContext(ctx); ok {
		address = hostOf(p.Addr.String())
	}
	stream, err := s.Stream(ctx, identity, address, md, &docpb.InvokeRequest{CapabilityId: in.Capability,
		ToolName: in.Tool, ArgsJson: in.Arguments, SessionId: in.Session})
	for err == nil {
		var chunk *docpb.InvokeChunk
		if chunk, err = stream.Recv(); err == nil {
			err = to.Send(&capgatepb.InvokeToolResponse{Data: chunk.GetData(), Done: chunk.GetDone(),
				Error: chunk.GetError()})
		}
	}
	if errors.Is(err, io.EOF) {
		return nil
	}
	return err
}
