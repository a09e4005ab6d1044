package rest

import (
	"context"
	"fmt"
	"strconv"
	"strings"

	"google.golang.org/grpc"
	"google.golang.org/protobuf/proto"

	"github.com/capgate/capgate/gateway/frontdoor/rest"
	capgatepb "github.com/capgate/capgate/proto/capgate/v1"
	openparallaxv1 "github.com/capgate/capgate/proto/openparallax/v1"
)

// sendMessage sends a message to an engine and streams its events.
func (e *engines) sendMessage(x *rest.Exchange) error {
	req, err := messageOf(x)
	if err != nil {
		return err
	}
	ctx, err := x.Outgoing(x.Params["engine"])
	if err != nil {
		return err
	}
	var t turn
	rest.ServeStream(bySource(ctx), x, rest.Pieces[openparallaxv1.PipelineEvent]{
		Call: func(ctx context.Context) (grpc.ServerStreamingClient[openparallaxv1.PipelineEvent], error) {
			return e.clients.SendMessage(ctx, req, grpc.MaxCallRecvMsgSize(rest.MaxReply))
		},
		Header: "X-Session-Id", // for a message without a session
		Record: t.record, Verdict: t.verdict,
		Failed: "failed", // some of an engine's own events are errors
	})
	return nil
}

// messageOf returns the message for an engine from a request.
func messageOf(x *rest.Exchange) (*openparallaxv1.ClientMessageRequest, error) {
	said := new(capgatepb.SendEngineMessageRequest)
	if err := x.Decode(said); err != nil {
		return nil, err
	}
	mode, wrong := modeOf(said.GetMode())
	switch {
	case said.GetContent() == "":
		wrong = "content is required"
	case said.GetEngine() != "" && said.GetEngine() != x.Params["engine"]:
		wrong = "engine in the body is not the engine in the path"
	}
	if wrong != "" {
		return nil, rest.Invalid(wrong)
	}
	return &openparallaxv1.ClientMessageRequest{Content: said.GetContent(), SessionId: said.GetSessionId(), Mode: mode,
		Source: said.GetSource()}, nil
}

// modeOf returns the mode of a name. Numbers are rejected, because their meaning depends on the reader.
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

// turn is an engine's event stream for one message.
type turn struct {
	complete bool
	fault    *openparallaxv1.PipelineEvent // the last event, if it reports a failure of the engine
}

// record returns the record of an event. An unknown type is named by its number.
func (t *turn) record(e *openparallaxv1.PipelineEvent) (event string, members []byte, err error) {
	t.fault = nil
	switch e.GetEventType() {
	case openparallaxv1.PipelineEventType_RESPONSE_COMPLETE:
		t.complete = true
	case openparallaxv1.PipelineEventType_ERROR:
		t.fault = e
	}
	members, err = rest.Members(e)
	if asksElsewhere(e) {
		return "approval_elsewhere", members, err
	}
	return strings.ToLower(e.GetEventType().String()), members, err
}

// asksElsewhere reports whether an event only has the ids of session and message: the engine asks a person in its own
// web page.
func asksElsewhere(e *openparallaxv1.PipelineEvent) bool {
	ids := &openparallaxv1.PipelineEvent{SessionId: e.GetSessionId(), MessageId: e.GetMessageId()}
	return e.GetSessionId() != "" && proto.Equal(e, ids)
}

func (t *turn) verdict() error {
	switch {
	case t.fault != nil:
		said := t.fault.GetPipelineError()
		return rest.Unprocessable("ENGINE_ERROR", said.GetMessage(),
			map[string]string{"code": said.GetCode(), "recoverable": strconv.FormatBool(said.GetRecoverable())})
	case !t.complete:
		return rest.CutOff("the engine ended its answer before it was complete; see the history of the session for " +
			"the stored part")
	}
	return nil
}
