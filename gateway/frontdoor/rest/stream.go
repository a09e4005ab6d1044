package rest

import (
	"context"
	"io"
	"net/http"

	"google.golang.org/grpc"

	"github.com/capgate/capgate/gateway/frontdoor/problem"
	"github.com/capgate/capgate/internal/call"
	"github.com/capgate/capgate/internal/lib/plainjson"
	docpb "github.com/capgate/capgate/proto/selu/capability"
)

// answer converts the messages of a call to records.
type answer[T any] interface {
	tell(T) error
	verdict() error               // for a call with status OK: an error if it was incomplete or has failed
	done() error                  // writes the last record of a successful call
	failed(problem.Problem) error // writes the last record of any other call
}

// serveAnswer makes a call and streams its records. The response starts with the first record or heartbeat; an earlier
// error is an HTTP status.
func serveAnswer[T any](ctx context.Context, h *Handler, w http.ResponseWriter, r *http.Request, to *records,
	call func(context.Context, func(T) error) error, a answer[T]) {
	over, err := pump(ctx, h.cfg.Beat, call, a.tell, to.beat)
	if !over {
		return // the client has disconnected, or reads nothing
	}
	if err == nil {
		err = a.verdict()
	}
	switch {
	case err == nil:
		err = a.done()
	case !to.out.Begun():
		h.fail(w, r, err)
		return
	default:
		err = a.failed(h.problemIn(r, err))
	}
	if err == nil {
		to.out.End()
	}
}

// received forwards the messages of a stream until its end.
func received[T any](stream grpc.ServerStreamingClient[T], err error, tell func(*T) error) error {
	for err == nil {
		var m *T
		if m, err = stream.Recv(); err == nil {
			err = tell(m)
		}
	}
	if err == io.EOF {
		return nil
	}
	return err
}

// serveStream makes one tool call and streams its result.
func (h *Handler) serveStream(w http.ResponseWriter, r *http.Request, f form, req *docpb.InvokeRequest) {
	to := h.recordsTo(w, f)
	serveAnswer(outgoing(r), h, w, r, to, func(ctx context.Context, tell func(*docpb.InvokeChunk) error) error {
		stream, err := h.capabilities.StreamInvoke(ctx, req, grpc.MaxCallRecvMsgSize(MaxReply))
		return received(stream, err, tell)
	}, &streaming{records: to})
}

// streaming is the state of a streamed tool call.
type streaming struct {
	*records
	ended bool
	fault string // the tool's own error
}

// tell writes a chunk of the result. The done record follows when the call has succeeded.
func (s *streaming) tell(c *docpb.InvokeChunk) error {
	if c.GetDone() || c.GetError() != "" {
		s.ended, s.fault = true, c.GetError()
	}
	if len(c.GetData()) == 0 {
		return nil
	}
	return s.record(recordChunk, piece(c.GetData()))
}

func (s *streaming) verdict() error {
	if s.ended {
		return nil
	}
	return cutOff("the capability ended its response before its last chunk; the result is incomplete")
}

func (s *streaming) done() error {
	if s.fault == "" {
		return s.record(recordDone, nil)
	}
	text, err := plainjson.Marshal(s.fault)
	if err != nil {
		return err
	}
	return s.record(recordDone, append([]byte(`"error":`), text...))
}

func (s *streaming) failed(p problem.Problem) error { return s.problem(recordError, p) }

// cutOff returns the error of a stream with status OK whose last piece is missing.
func cutOff(detail string) *call.Refusal {
	return &call.Refusal{Kind: call.DataLoss, Reason: "ANSWER_CUT_OFF", Message: detail,
		Progress: call.Sent}
}
