package engine

import (
	"context"
	"encoding/json"
	"slices"

	openparallaxv1 "github.com/capgate/capgate/proto/openparallax/v1"
)

// action is a tool that an agent proposed.
type action struct {
	session, message string
	tool, args       string
	otr              bool
}

func (a action) event(kind openparallaxv1.PipelineEventType) *openparallaxv1.PipelineEvent {
	return &openparallaxv1.PipelineEvent{SessionId: a.session, MessageId: a.message, EventType: kind}
}

// run executes an action that Shield or a person permits, and sends events to the readers of the session. It returns
// the result for the agent.
func (e *Engine) run(ctx context.Context, a action) (content string, failed bool) {
	all := tools()
	i := slices.IndexFunc(all, func(t tool) bool { return t.name == a.tool })
	if i < 0 {
		return "unknown tool " + a.tool, true
	}
	t := all[i]
	if a.otr && t.writes {
		event := a.event(openparallaxv1.PipelineEventType_OTR_BLOCKED)
		event.OtrBlocked = &openparallaxv1.OTRBlocked{ActionType: t.kind, Reason: "nothing is written off the record"}
		e.readers.broadcast(event)
		return "Blocked: nothing is written off the record", true
	}
	started := a.event(openparallaxv1.PipelineEventType_ACTION_STARTED)
	started.ActionStarted = &openparallaxv1.ActionStarted{ActionType: t.kind, Summary: a.tool + ": " + a.args}
	e.readers.broadcast(started)

	content, ok := e.judgeAndRun(ctx, a, t)

	completed := a.event(openparallaxv1.PipelineEventType_ACTION_COMPLETED)
	completed.ActionCompleted = &openparallaxv1.ActionCompleted{ActionType: t.kind, Success: ok, Summary: content}
	e.readers.broadcast(completed)
	return content, !ok
}

func (e *Engine) judgeAndRun(ctx context.Context, a action, t tool) (content string, ok bool) {
	verdict := e.cfg.Shield.Judge(a.tool, a.args)
	event := a.event(openparallaxv1.PipelineEventType_SHIELD_VERDICT)
	event.ShieldVerdict = &openparallaxv1.ShieldVerdict{
		Decision: verdict.GetDecision(), Tier: verdict.GetTier(), Confidence: verdict.GetConfidence(),
		Reasoning: verdict.GetReasoning(), ActionType: t.kind,
	}
	e.readers.broadcast(event)
	switch verdict.GetDecision() {
	case openparallaxv1.VerdictDecision_BLOCK:
		return "Blocked by security: " + verdict.GetReasoning(), false
	case openparallaxv1.VerdictDecision_ESCALATE:
		request := &openparallaxv1.ActionRequest{RequestId: a.message, Type: t.kind, PayloadJson: a.args,
			Hash: verdict.GetActionHash()}
		if !e.approved(ctx, a, request, verdict) {
			return "denied by human review", false
		}
	}
	var in arguments
	if err := json.Unmarshal([]byte(a.args), &in); err != nil {
		return "invalid arguments: " + err.Error(), false
	}
	out, err := t.run(ctx, e, a, in)
	if err != nil {
		return err.Error(), false
	}
	return out, true
}
