package engine

import (
	"errors"
	"fmt"
	"io"
	"strings"

	openparallaxv1 "github.com/capgate/capgate/proto/openparallax/v1"
)

// RunSession serves the agent's stream. The most recent caller is the engine's agent.
func (e *Engine) RunSession(stream openparallaxv1.AgentService_RunSessionServer) error {
	first, err := stream.Recv()
	if err != nil {
		return fmt.Errorf("agent stream: %w", err)
	}
	ready := first.GetReady()
	if ready == nil {
		return fmt.Errorf("expected AgentReady, got %T", first.GetEvent())
	}
	if _, token, _ := strings.Cut(ready.GetAgentId(), ":"); e.cfg.Token != "" && token != e.cfg.Token {
		return errors.New("agent authentication failed: invalid token")
	}
	if err := e.greet(stream); err != nil {
		return err
	}
	// This holds even if another agent has replaced this one.
	defer e.forget()
	for {
		event, err := stream.Recv()
		if errors.Is(err, io.EOF) || stream.Context().Err() != nil {
			return nil
		}
		if err != nil {
			return fmt.Errorf("agent stream: %w", err)
		}
		if err := e.hear(stream, event); err != nil {
			return err
		}
	}
}

// greet makes a connection the engine's agent. The list of tools precedes all other directives.
func (e *Engine) greet(stream openparallaxv1.AgentService_RunSessionServer) error {
	e.agent.Lock()
	defer e.agent.Unlock()
	err := stream.Send(&openparallaxv1.EngineDirective{Directive: &openparallaxv1.EngineDirective_InitialToolDefs{
		InitialToolDefs: &openparallaxv1.InitialToolDefs{Tools: initialTools()},
	}})
	if err != nil {
		return fmt.Errorf("send initial tool defs: %w", err)
	}
	e.conn = stream
	return nil
}

func (e *Engine) forget() {
	e.agent.Lock()
	defer e.agent.Unlock()
	e.conn = nil
}

// hear handles an event from an agent.
func (e *Engine) hear(stream openparallaxv1.AgentService_RunSessionServer, event *openparallaxv1.AgentEvent) error {
	switch event := event.GetEvent().(type) {
	case *openparallaxv1.AgentEvent_LlmTokenEmitted:
		t := event.LlmTokenEmitted
		e.readers.broadcast(&openparallaxv1.PipelineEvent{
			SessionId: t.GetSessionId(), MessageId: t.GetMessageId(),
			EventType: openparallaxv1.PipelineEventType_LLM_TOKEN,
			LlmToken:  &openparallaxv1.LLMToken{Text: t.GetText()},
		})
	case *openparallaxv1.AgentEvent_ToolProposal:
		p := event.ToolProposal
		content, failed := e.run(stream.Context(), action{
			session: p.GetSessionId(), message: p.GetMessageId(), tool: p.GetToolName(), args: p.GetArgumentsJson(),
			otr: e.flagged(),
		})
		return e.reply(stream, &openparallaxv1.EngineDirective{Directive: &openparallaxv1.EngineDirective_ToolResult{
			ToolResult: &openparallaxv1.ToolResultDelivery{CallId: p.GetCallId(), Content: content, IsError: failed},
		}})
	case *openparallaxv1.AgentEvent_ToolDefsRequest:
		return e.reply(stream, &openparallaxv1.EngineDirective{Directive: &openparallaxv1.EngineDirective_ToolDefs{
			ToolDefs: &openparallaxv1.ToolDefsDelivery{Tools: toolsOf(event.ToolDefsRequest.GetGroups())},
		}})
	case *openparallaxv1.AgentEvent_MemoryFlush:
		e.history.remember(event.MemoryFlush.GetContent())
	case *openparallaxv1.AgentEvent_ResponseComplete:
		r := event.ResponseComplete
		if !e.flagged() {
			e.history.add(r.GetSessionId(), "", "assistant", r.GetContent(), e.mode(false))
		}
		e.readers.broadcast(&openparallaxv1.PipelineEvent{
			SessionId: r.GetSessionId(), MessageId: r.GetMessageId(),
			EventType:        openparallaxv1.PipelineEventType_RESPONSE_COMPLETE,
			ResponseComplete: &openparallaxv1.ResponseComplete{Content: r.GetContent()},
		})
	case *openparallaxv1.AgentEvent_AgentError:
		a := event.AgentError
		e.readers.broadcast(failure(a.GetSessionId(), a.GetMessageId(), a.GetCode(), a.GetMessage(),
			a.GetRecoverable()))
	}
	return nil
}

// reply sends to the agent that sent the request, even if it is no longer the engine's agent.
func (e *Engine) reply(stream openparallaxv1.AgentService_RunSessionServer, d *openparallaxv1.EngineDirective) error {
	e.agent.Lock()
	defer e.agent.Unlock()
	return stream.Send(d)
}

func failure(session, message, code, text string, recoverable bool) *openparallaxv1.PipelineEvent {
	return &openparallaxv1.PipelineEvent{
		SessionId: session, MessageId: message, EventType: openparallaxv1.PipelineEventType_ERROR,
		PipelineError: &openparallaxv1.PipelineError{Code: code, Message: text, Recoverable: recoverable},
	}
}
