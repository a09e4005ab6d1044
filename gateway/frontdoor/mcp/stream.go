package mcp

import (
	"bytes"
	"context"
	"errors"
	"io"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"

	"github.com/capgate/capgate/gateway/frontdoor/request"
	docpb "github.com/capgate/capgate/proto/selu/capability"
)

// replyCopies is how often a growing answer is held while it is copied to a longer buffer.
const replyCopies = 2

// stream makes a call whose answer comes in pieces, each of which is told as progress. The answer is all pieces
// together, the list of them, or the last one of an MCP server. A backend that does not stream gets the call as one of Invoke.
func (h *Handler) stream(ctx context.Context, i *invocation) (*docpb.InvokeResponse, error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	stream, err := h.capabilities.StreamInvoke(metadata.NewOutgoingContext(ctx, i.metadata()), i.req,
		grpc.MaxCallRecvMsgSize(maxReply))
	if err != nil {
		return nil, err
	}
	reply, pieces, held := new(docpb.InvokeResponse), 0, request.Growing{}
	for {
		c, err := stream.Recv()
		switch {
		case errors.Is(err, io.EOF):
			return nil, status.Error(codes.DataLoss, "the capability ended its answer before its last chunk; the result is "+
				"incomplete")
		case err != nil && pieces == 0 && status.Code(err) == codes.Unimplemented:
			return h.unary(ctx, i)
		case err != nil:
			return nil, err
		}
		last := c.GetDone() || c.GetError() != ""
		if pieces++; len(reply.GetResultJson())+len(c.GetData()) > maxReply {
			return nil, status.Error(codes.ResourceExhausted, "the answer of the capability is too long")
		}
		if err := held.Hold(ctx, replyCopies*(len(reply.GetResultJson())+len(c.GetData()))); err != nil {
			return nil, err
		}
		switch piece := c.GetData(); {
		case i.results.Listed && !last:
			reply.ResultJson = append(append(reply.ResultJson, bytes.TrimSpace(piece)...), ',')
		case i.results.Listed && len(piece) == 0 && c.GetError() == "":
			reply.ResultJson = append(append([]byte("["), bytes.TrimSuffix(reply.GetResultJson(), []byte(","))...), ']')
		case last || !i.results.Relayed: // what an MCP server says of the progress is no part of its result
			reply.ResultJson = append(reply.ResultJson, piece...)
		}
		if last {
			reply.Error = c.GetError()
			return reply, drained(stream)
		}
		if err := i.told.piece(ctx, c.GetData(), i.results.Relayed); err != nil {
			return nil, err
		}
	}
}

// drained waits for the status of a stream after its last chunk.
func drained(stream grpc.ServerStreamingClient[docpb.InvokeChunk]) error {
	for {
		if _, err := stream.Recv(); errors.Is(err, io.EOF) {
			return nil
		} else if err != nil {
			return err
		}
	}
}
