package mcp

import (
	"bytes"
	"context"
	"errors"
	"io"
	"unicode/utf8"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"

	"github.com/capgate/capgate/gateway/frontdoor/request"
	"github.com/capgate/capgate/gateway/frontdoor/unary"
	"github.com/capgate/capgate/gateway/localgrpc"
	"github.com/capgate/capgate/gateway/relay"
	gatewaystatus "github.com/capgate/capgate/gateway/status"
	"github.com/capgate/capgate/internal/call"
	docpb "github.com/capgate/capgate/proto/selu/capability"
)

// maxReply is the maximum size of a capability's response, in bytes.
const maxReply = 16 << 20

// invoke makes the call. If the client requests progress notifications, the response is streamed.
func (h *Handler) invoke(ctx context.Context, i *invocation) (*docpb.InvokeResponse, error) {
	defer h.answerQuestions(i)()
	if i.progress != nil && len(i.keys) == 0 { // the response for a key is stored whole
		return h.stream(ctx, i)
	}
	return h.unary(ctx, i)
}

// unary makes a unary call. The reply is valid until the memory of the exchange is reused.
func (h *Handler) unary(ctx context.Context, i *invocation) (*docpb.InvokeResponse, error) {
	of := i.exchange.memory
	if of == nil {
		of = new(memory)
	}
	q := i.req
	if !utf8.ValidString(q.GetToolName()) || !utf8.ValidString(q.GetSessionId()) || !utf8.ValidString(q.GetThreadId()) {
		return nil, invalidParams("the call cannot be encoded: a string is not valid UTF-8")
	}
	var room [relay.Headroom]byte
	of.message = unary.AppendCall(append(of.message[:0], room[:]...), q.GetToolName(), q.GetArgsJson(),
		q.GetConfigJson(), q.GetSessionId(), q.GetCapabilityId(), q.GetThreadId())
	response := &of.response
	of.request = relay.Request{Path: docpb.Capability_Invoke_FullMethodName, Authority: localgrpc.DefaultAuthority,
		Header: i.fields, MaxMessage: maxReply}
	h.cfg.Unary(ctx, &of.request, of.message, response)
	reply, err := &of.reply, error(nil)
	if reply.ResultJson, reply.Error, err = localgrpc.Result(response); err != nil {
		return nil, err
	}
	if i.results.Relayed {
		i.rest = localgrpc.Rest(response.Message)
	}
	return reply, nil
}

// replyCopies is the number of copies of a growing result in memory while its buffer is extended.
const replyCopies = 2

// Refusals of streamed responses.
var (
	cutOff = &call.Refusal{Kind: call.DataLoss, Reason: "ANSWER_CUT_OFF", Progress: call.Sent,
		Message: "the capability ended its response before its last chunk; the result is incomplete"}
	tooLong = &call.Refusal{Kind: call.ResourceExhausted, Reason: "MESSAGE_TOO_LARGE", Progress: call.Sent,
		Message: "the capability's response is too long"}
)

// stream makes a call with StreamInvoke and sends each chunk of the result as a progress notification. The response
// has all chunks as one text, as a list, or the last chunk of an MCP server. If the backend does not implement
// StreamInvoke, stream makes the call with Invoke.
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
			return nil, gatewaystatus.Error(cutOff, call.Sent)
		case err != nil && pieces == 0 && status.Code(err) == codes.Unimplemented:
			return h.unary(ctx, i)
		case err != nil:
			return nil, err
		}
		last := c.GetDone() || c.GetError() != ""
		if pieces++; len(reply.GetResultJson())+len(c.GetData()) > maxReply {
			return nil, gatewaystatus.Error(tooLong, call.Sent)
		}
		if err := held.Hold(ctx, replyCopies*(len(reply.GetResultJson())+len(c.GetData()))); err != nil {
			return nil, err
		}
		switch piece := c.GetData(); {
		case i.results.Listed && !last:
			reply.ResultJson = append(append(reply.ResultJson, bytes.TrimSpace(piece)...), ',')
		case i.results.Listed && len(piece) == 0 && c.GetError() == "":
			reply.ResultJson = append(append([]byte("["), bytes.TrimSuffix(reply.GetResultJson(), []byte(","))...), ']')
		case last || !i.results.Relayed: // progress messages of an MCP server are not part of its result
			reply.ResultJson = append(reply.ResultJson, piece...)
		}
		if last {
			reply.Error = c.GetError()
			if i.results.Relayed {
				i.rest = localgrpc.Rest(c.ProtoReflect().GetUnknown())
			}
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
