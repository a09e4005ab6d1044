package mcp

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"math"
	"sync"
	"time"
	"unicode/utf8"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"

	"github.com/capgate/capgate/gateway/frontdoor/request"
	"github.com/capgate/capgate/gateway/localgrpc"
	docpb "github.com/capgate/capgate/proto/selu/capability"
)

// noticeCopies is how often a piece is held while its notification is written: control characters become six.
const noticeCopies = 8

// leastProgress is that of a notification that has no number of its own: an MCP server may count parts of 1.
const leastProgress = 1e-6

// progress tells a client of the progress of its call. Its numbers increase (2025-11-25, Progress). It is safe for
// concurrent use.
type progress struct {
	session *sdk.ServerSession
	token   any

	mu    sync.Mutex
	sent  bool
	last  float64
	begun bool // there was a piece: repeated notifications are over
}

// piece sends a piece of the answer. What an MCP server sends is a notification itself. It waits for a client that
// reads slowly.
func (p *progress) piece(ctx context.Context, data []byte, relayed bool) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.begun = true
	release, err := request.HoldFor(ctx, noticeCopies*len(data))
	if err != nil {
		return err
	}
	defer release()
	n := &sdk.ProgressNotificationParams{}
	switch {
	case relayed && json.Unmarshal(data, n) == nil:
	default:
		n.Progress = math.Floor(p.last) + 1
		if utf8.Valid(data) {
			n.Message = string(data)
		}
	}
	return p.send(ctx, n)
}

// send sends a notification. Its progress is more than that of the last one. The caller holds mu.
func (p *progress) send(ctx context.Context, n *sdk.ProgressNotificationParams) error {
	if p.sent && n.Progress <= p.last {
		n.Progress = p.last + leastProgress
	}
	p.sent, p.last, n.ProgressToken = true, n.Progress, p.token
	if err := p.session.NotifyProgress(ctx, n); err != nil {
		return status.Error(codes.Canceled, "the client does not read its progress notifications")
	}
	return nil
}

// repeat tells a text now and after each interval, until there is a piece of the answer. The caller calls stop in the
// end.
func (p *progress) repeat(ctx context.Context, every time.Duration, text string) (stop func()) {
	ctx, cancel := context.WithCancel(ctx)
	var running sync.WaitGroup
	running.Go(func() {
		ticker := time.NewTicker(every)
		defer ticker.Stop()
		for p.again(ctx, text) {
			select {
			case <-ctx.Done():
				return
			case <-ticker.C:
			}
		}
	})
	return func() {
		cancel()
		running.Wait()
	}
}

// again tells a text. It is false once there was a piece of the answer, or the client has gone.
func (p *progress) again(ctx context.Context, text string) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return !p.begun && p.send(ctx, &sdk.ProgressNotificationParams{Message: text}) == nil
}

// replyCopies is the number of copies of a growing result in memory while its buffer is extended.
const replyCopies = 2

// stream makes a call with StreamInvoke and sends each chunk of the result as a progress notification. The response has
// all chunks as one text, as a list, or the last chunk of an MCP server. If the backend does not implement StreamInvoke,
// stream makes the call with Invoke.
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
