package mcp

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"unicode/utf8"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"

	docpb "github.com/capgate/capgate/proto/selu/capability"
)

// stream makes a call whose answer comes in pieces, each of which is told as progress. The answer is all pieces
// together, or the last one of an MCP server. A backend that does not stream gets the call as one of Invoke.
func (h *Handler) stream(ctx context.Context, i *invocation) (*docpb.InvokeResponse, error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	stream, err := h.capabilities.StreamInvoke(metadata.NewOutgoingContext(ctx, i.metadata()), i.req,
		grpc.MaxCallRecvMsgSize(maxReply))
	if err != nil {
		return nil, err
	}
	reply, pieces := new(docpb.InvokeResponse), 0
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
		if last || !i.relays { // what an MCP server says of the progress is no part of its result
			reply.ResultJson = append(reply.ResultJson, c.GetData()...)
		}
		if last {
			reply.Error = c.GetError()
			return reply, drained(stream)
		}
		if err := i.tell(ctx, pieces, c.GetData()); err != nil {
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

// tell sends a piece as a progress notification. It waits for a client that reads slowly.
func (i *invocation) tell(ctx context.Context, pieces int, data []byte) error {
	p := &sdk.ProgressNotificationParams{ProgressToken: i.progress, Progress: float64(pieces)}
	switch {
	case i.relays && json.Unmarshal(data, p) == nil:
		p.ProgressToken = i.progress
	case utf8.Valid(data):
		p.Message = string(data)
	}
	if err := i.session.NotifyProgress(ctx, p); err != nil {
		return status.Error(codes.Canceled, "the client does not read its progress notifications")
	}
	return nil
}
