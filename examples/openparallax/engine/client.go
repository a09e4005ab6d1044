package engine

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"

	openparallaxv1 "github.com/capgate/capgate/proto/openparallax/v1"
)

// SendMessage records a message, passes it to the agent, and streams the events of its session until the answer is
// complete.
func (e *Engine) SendMessage(r *openparallaxv1.ClientMessageRequest,
	stream openparallaxv1.ClientService_SendMessageServer) error {
	session, message, otr := r.GetSessionId(), rand.Text(), e.offTheRecord(r.GetMode())
	if !otr {
		e.history.add(session, message, "user", r.GetContent(), e.mode(false))
	}
	reader := e.readers.subscribe(session, stream)
	defer e.readers.unsubscribe(session, reader)
	e.setFlag(otr)
	err := e.direct(&openparallaxv1.EngineDirective{Directive: &openparallaxv1.EngineDirective_Process{
		Process: &openparallaxv1.ProcessRequest{
			SessionId: session, MessageId: message, Content: r.GetContent(), Mode: e.mode(otr), Source: r.GetSource(),
		},
	}})
	if err != nil {
		return reader.send(failure(session, message, "AGENT_UNAVAILABLE", err.Error(), true))
	}
	select {
	case <-reader.ended:
	case <-stream.Context().Done():
	}
	return nil
}

// ResolveApproval answers an approval. It does not check the session.
func (e *Engine) ResolveApproval(_ context.Context, r *openparallaxv1.ApprovalResponse) (*openparallaxv1.ApprovalAck,
	error) {
	if !e.approvals.resolve(r.GetApprovalId(), r.GetApproved()) {
		return nil, fmt.Errorf("no pending action: %.64s", r.GetApprovalId())
	}
	return &openparallaxv1.ApprovalAck{Received: true}, nil
}

// GetStatus returns the engine's agent and state.
func (e *Engine) GetStatus(context.Context, *openparallaxv1.StatusRequest) (*openparallaxv1.StatusResponse, error) {
	return &openparallaxv1.StatusResponse{
		AgentName: e.cfg.Name, Model: "scripted", ShieldConnected: true, ShieldMaxTier: 3,
		UptimeSeconds: int64(e.cfg.Now().Sub(e.began).Seconds()), SessionCount: int32(len(e.history.list(0, 0))),
	}, nil
}

// ListSessions lists recorded sessions, the most recent first.
func (e *Engine) ListSessions(_ context.Context,
	r *openparallaxv1.ListSessionsRequest) (*openparallaxv1.ListSessionsResponse, error) {
	limit, offset := int(r.GetLimit()), int(r.GetOffset())
	if e.cfg.IgnorePages {
		limit, offset = 0, 0
	}
	return &openparallaxv1.ListSessionsResponse{Sessions: e.history.list(limit, offset)}, nil
}

var errBusy = errors.New("database is locked")

// GetHistory returns the messages of a session; with a limit, the last ones.
func (e *Engine) GetHistory(_ context.Context,
	r *openparallaxv1.GetHistoryRequest) (*openparallaxv1.GetHistoryResponse, error) {
	if e.cfg.BusyHistory {
		return nil, errBusy
	}
	limit := int(r.GetLimit())
	if e.cfg.IgnorePages {
		limit = 0
	}
	return &openparallaxv1.GetHistoryResponse{Messages: e.history.of(r.GetSessionId(), limit)}, nil
}

// Shutdown ends the engine. It does not check the caller.
func (e *Engine) Shutdown(context.Context, *openparallaxv1.ShutdownRequest) (*openparallaxv1.ShutdownResponse, error) {
	e.stop()
	return &openparallaxv1.ShutdownResponse{Clean: true}, nil
}
