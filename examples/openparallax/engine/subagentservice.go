package engine

import (
	"context"
	"errors"
	"fmt"

	openparallaxv1 "github.com/capgate/capgate/proto/openparallax/v1"
)

// RegisterSubAgent returns the task of a token. A token is valid once.
func (e *Engine) RegisterSubAgent(_ context.Context,
	r *openparallaxv1.SubAgentRegisterRequest) (*openparallaxv1.SubAgentRegisterResponse, error) {
	a, ok := e.subAgents.register(r.GetToken())
	if !ok {
		return nil, errors.New("invalid sub-agent token")
	}
	reply := &openparallaxv1.SubAgentRegisterResponse{
		Name: a.name, Task: a.task, SystemPrompt: "You work on one task: " + a.task, Model: "scripted",
		Provider:    "example",
		MaxLlmCalls: 25,
	}
	for _, t := range toolsOf([]string{"files", "shell"}) {
		reply.Tools = append(reply.Tools, &openparallaxv1.SubAgentToolDef{Name: t.GetName(),
			Description: t.GetDescription(), ParametersJson: t.GetParametersJson()})
	}
	return reply, nil
}

// SubAgentExecuteTool runs a tool as for the agent.
func (e *Engine) SubAgentExecuteTool(ctx context.Context,
	r *openparallaxv1.SubAgentToolRequest) (*openparallaxv1.SubAgentToolResponse, error) {
	session := r.GetSessionId()
	if session == "" {
		session = "sub-agent-" + r.GetName()
	}
	content, failed := e.run(ctx, action{session: session, message: "sub-" + r.GetName(), tool: r.GetToolName(),
		args: r.GetArgumentsJson()})
	return &openparallaxv1.SubAgentToolResponse{Content: content, IsError: failed}, nil
}

// SubAgentComplete records a result.
func (e *Engine) SubAgentComplete(_ context.Context,
	r *openparallaxv1.SubAgentCompleteRequest) (*openparallaxv1.SubAgentCompleteResponse, error) {
	e.finished(r.GetName(), r.GetResult(), nil, openparallaxv1.PipelineEventType_SUB_AGENT_COMPLETED)
	return &openparallaxv1.SubAgentCompleteResponse{}, nil
}

// SubAgentFailed records a failure.
func (e *Engine) SubAgentFailed(_ context.Context,
	r *openparallaxv1.SubAgentFailedRequest) (*openparallaxv1.SubAgentFailedResponse, error) {
	e.finished(r.GetName(), "", fmt.Errorf("sub-agent %s failed: %s", r.GetName(), r.GetError()),
		openparallaxv1.PipelineEventType_SUB_AGENT_FAILED)
	return &openparallaxv1.SubAgentFailedResponse{}, nil
}

func (e *Engine) finished(name, result string, err error, kind openparallaxv1.PipelineEventType) {
	if session, working := e.subAgents.session(name); working {
		e.readers.broadcast(action{session: session, message: "sub-" + name}.event(kind))
		e.subAgents.finish(name, result, err)
	}
}

// SubAgentPollMessage returns the agent's messages to a sub-agent, one at a time.
func (e *Engine) SubAgentPollMessage(_ context.Context,
	r *openparallaxv1.SubAgentPollRequest) (*openparallaxv1.SubAgentPollResponse, error) {
	content, ok := e.subAgents.poll(r.GetName())
	return &openparallaxv1.SubAgentPollResponse{HasMessage: ok, Content: content}, nil
}
