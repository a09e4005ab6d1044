package rest

import (
	"bytes"
	"context"
	"fmt"
	"net/http"
	"strconv"
	"strings"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"

	"github.com/capgate/capgate/gateway/frontdoor/problem"
	capgatepb "github.com/capgate/capgate/proto/capgate/v1"
	openparallaxv1 "github.com/capgate/capgate/proto/openparallax/v1"
)

const messagesPattern = "/v1/engines/{engine=*}/messages"

// sendMessage says something to an engine and answers with the stream of what happens.
func (h *Handler) sendMessage(w http.ResponseWriter, r *http.Request, params map[string]string, f form) {
	if again(w, r) {
		return
	}
	req, err := messageOf(r, params["engine"])
	if err != nil {
		h.fail(w, r, err)
		return
	}
	ctx, err := h.outgoing(r, openparallaxv1.ClientService_SendMessage_FullMethodName)
	if err == nil {
		made, _ := metadata.FromOutgoingContext(ctx)
		ctx, err = toEngine(ctx, made, params["engine"])
	}
	if err != nil {
		h.fail(w, r, err)
		return
	}
	to := h.recordsTo(w, f)
	serveAnswer(ctx, h, w, r, to, func(ctx context.Context, tell func(*openparallaxv1.PipelineEvent) error) error {
		stream, err := h.engines.SendMessage(ctx, req, grpc.MaxCallRecvMsgSize(maxReply))
		return received(stream, err, tell)
	}, &turn{records: to})
}

// messageOf reads the message for an engine out of a request.
func messageOf(r *http.Request, engine string) (*openparallaxv1.ClientMessageRequest, error) {
	said := new(capgatepb.SendEngineMessageRequest)
	if err := decode(bodyOf(r.Context()), said); err != nil {
		return nil, err
	}
	mode, wrong := modeOf(said.GetMode())
	switch {
	case said.GetContent() == "":
		wrong = "content is required"
	case said.GetEngine() != "" && said.GetEngine() != engine:
		wrong = "engine in the body is not the engine in the path"
	}
	if wrong != "" {
		return nil, &refusal{code: codes.InvalidArgument, reason: "INVALID_BODY", detail: wrong}
	}
	return &openparallaxv1.ClientMessageRequest{Content: said.GetContent(), SessionId: said.GetSessionId(), Mode: mode, Source: said.GetSource()}, nil
}

// modeOf is the mode that a name means. A number means one or another, depending on who reads it, and is none.
func modeOf(name string) (mode openparallaxv1.SessionMode, wrong string) {
	if name == "" {
		return openparallaxv1.SessionMode_NORMAL, ""
	}
	mode = openparallaxv1.SessionMode(openparallaxv1.SessionMode_value[name])
	if mode == openparallaxv1.SessionMode_SESSION_MODE_UNSPECIFIED {
		return mode, fmt.Sprintf("mode must be NORMAL, OTR or HEARTBEAT, and not %.64q", name)
	}
	return mode, ""
}

// turn is what an engine does with a message, on its way to a client.
type turn struct {
	*records
	complete bool
	fault    *openparallaxv1.PipelineEvent // the last event, if it is that the engine failed
}

// tell writes an event. A type that has no name here goes by its number.
func (t *turn) tell(e *openparallaxv1.PipelineEvent) error {
	t.fault = nil
	switch e.GetEventType() {
	case openparallaxv1.PipelineEventType_RESPONSE_COMPLETE:
		t.complete = true
	case openparallaxv1.PipelineEventType_ERROR:
		t.fault = e
	}
	text, err := encodeMessage(e)
	if err != nil {
		return err
	}
	return t.record(strings.ToLower(e.GetEventType().String()), text[1:bytes.LastIndexByte(text, '}')])
}

func (t *turn) verdict() error {
	switch {
	case t.fault != nil:
		said := t.fault.GetPipelineError()
		return &refusal{code: codes.Unknown, status: http.StatusUnprocessableEntity, reason: "ENGINE_ERROR", detail: said.GetMessage(),
			metadata: map[string]string{"code": said.GetCode(), "recoverable": strconv.FormatBool(said.GetRecoverable())}}
	case !t.complete:
		return cutOff("the engine ended its answer before it was complete; the history of the session has what it kept")
	}
	return nil
}

func (t *turn) done() error { return t.record(recordDone, nil) }

func (t *turn) failed(p problem.Problem) error { return t.problem(recordFailed, p) }
