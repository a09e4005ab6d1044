package rest

import (
	"context"
	"io"
	"net/http"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"

	"github.com/capgate/capgate/gateway/problems"
	docpb "github.com/capgate/capgate/proto/selu/capability"
)

// serveStream makes one call of a tool and writes what it says, piece by piece. The response begins with the
// first record, or the first beat; an error before that is an HTTP status.
func (h *Handler) serveStream(w http.ResponseWriter, r *http.Request, f form, req *docpb.InvokeRequest) {
	ctx, err := h.outgoing(r, docpb.Capability_StreamInvoke_FullMethodName)
	if err != nil {
		WriteProblem(w, r, err, h.status)
		return
	}
	s := &streaming{form: f, out: newLive(w, f.contentType(), "no-cache, no-transform", h.cfg.Stall)}
	over, err := pump(ctx, h.cfg.Beat,
		func(ctx context.Context, tell func(*docpb.InvokeChunk) error) error { return h.chunks(ctx, req, tell) },
		s.chunk, s.beat)
	if !over {
		return // the client is gone, or reads nothing
	}
	if err == nil && !s.ended {
		err = cutOff()
	}
	switch {
	case err == nil:
		err = s.done()
	case !s.out.begun:
		h.fail(w, r, err)
		return
	default:
		err = s.failed(h.problemIn(r, err))
	}
	if err == nil {
		s.out.end()
	}
}

// chunks calls a tool and tells what comes, until all has.
func (h *Handler) chunks(ctx context.Context, req *docpb.InvokeRequest, tell func(*docpb.InvokeChunk) error) error {
	stream, err := h.capabilities.StreamInvoke(ctx, req, grpc.MaxCallRecvMsgSize(maxReply))
	for err == nil {
		var c *docpb.InvokeChunk
		if c, err = stream.Recv(); err == nil {
			err = tell(c)
		}
	}
	if err == io.EOF {
		return nil
	}
	return err
}

// streaming is a call on its way to a client.
type streaming struct {
	form  form
	out   *live
	id    int // of the last record
	ended bool
	fault string // the tool's own error
}

// chunk writes a piece of the result. That it was the last is told once the call has ended well.
func (s *streaming) chunk(c *docpb.InvokeChunk) error {
	if c.GetDone() || c.GetError() != "" {
		s.ended, s.fault = true, c.GetError()
	}
	if len(c.GetData()) == 0 {
		return nil
	}
	return s.record(recordChunk, piece(c.GetData()))
}

func (s *streaming) done() error {
	if s.fault == "" {
		return s.record(recordDone, nil)
	}
	text, err := plainJSON(s.fault)
	if err != nil {
		return err
	}
	return s.record(recordDone, append([]byte(`"error":`), text...))
}

func (s *streaming) failed(p problems.Problem) error {
	text, err := plainJSON(p)
	if err != nil {
		return err
	}
	return s.record(recordError, append([]byte(`"problem":`), text...))
}

func (s *streaming) record(event string, members []byte) error {
	s.id++
	return s.out.write(s.form.record(event, s.id, members))
}

func (s *streaming) beat() error { return s.out.write(s.form.beat(s.out.begun)) }

// cutOff is the error of a stream that ended well, as far as gRPC knows, without its last chunk.
func cutOff() *refusal {
	return &refusal{code: codes.DataLoss, status: http.StatusBadGateway, reason: "ANSWER_CUT_OFF",
		detail: "the capability ended its answer before its last piece: what came is not all"}
}
