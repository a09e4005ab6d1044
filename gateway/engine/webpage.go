package engine

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"

	"github.com/capgate/capgate/internal/call"
	"github.com/capgate/capgate/policy/approvals"
)

// webPageQuestion is the question of a message that only the engine's own web page can answer: published engines send
// an event without type or content when they ask a person. The client receives this event unchanged. Its approval
// shows where to answer, until the message continues.
type webPageQuestion struct {
	started string // summary of the last started action
	id      string // id of the approval; empty means none
}

// observe processes an event of the message. The engine sends nothing further until it has the answer.
func (q *webPageQuestion) observe(ctx context.Context, g *Guard, p *Call, e *event) {
	switch {
	case e.blank && q.id == "":
		q.id = g.createWithoutID(ctx, p, q.started)
	case !e.blank:
		q.withdraw(g, p)
	}
	if e.started != "" {
		q.started = e.started
	}
}

// withdraw ends the approval. If that fails, it expires.
func (q *webPageQuestion) withdraw(g *Guard, p *Call) {
	if q.id == "" {
		return
	}
	ctx, cancel := context.WithTimeout(g.alive, askTimeout)
	defer cancel()
	if err := g.cfg.Approvals.Withdraw(ctx, p.Tenant, q.id); err != nil {
		g.cfg.Log.Warn("answered question of an engine still shown as pending", "capability", p.Fleet, "approval", q.id,
			"error", err)
	}
	q.id = ""
}

// createWithoutID creates the approval of a question without an id; empty if that fails.
func (g *Guard) createWithoutID(ctx context.Context, p *Call, started string) (id string) {
	ctx, cancel := context.WithTimeout(ctx, askTimeout)
	defer cancel()
	r := &approvals.Request{
		Tenant: p.Tenant, User: p.User, Agent: p.Agent, Capability: p.Fleet, Session: p.Session,
		RequestID: p.RequestID, Level: approvals.Elsewhere,
		Why: fmt.Sprintf("engine %s at %s asks a person in session %q; answer in the engine's own web page", p.Fleet,
			p.Backend, p.Session),
	}
	r.Tool, r.Args = actionOf(started)
	a, _, refusal := g.cfg.Approvals.Create(ctx, r)
	if refusal != nil && refusal.Kind == call.InvalidArgument && r.Args != nil { // ambiguous arguments are not shown
		r.Args = nil
		a, _, refusal = g.cfg.Approvals.Create(ctx, r)
	}
	if refusal != nil {
		g.cfg.Log.Warn("question of an engine not shown", "capability", p.Fleet, "tenant", p.Tenant, "reason",
			refusal.Reason)
		return ""
	}
	return a.ID
}

const (
	unknownTool = "unknown"
	maxToolName = 128
)

// actionOf returns the tool and the arguments of an action's summary, which published engines write as "tool: JSON".
// They shorten long arguments, which are then omitted: secrets can only be masked in complete JSON.
func actionOf(summary string) (tool string, args []byte) {
	tool, said, _ := strings.Cut(summary, ": ")
	if tool == "" || len(tool) > maxToolName || strings.ContainsFunc(tool, notInNames) {
		return unknownTool, nil
	}
	if !json.Valid([]byte(said)) {
		return tool, nil
	}
	return tool, []byte(said)
}

// notInNames reports whether a character is not allowed in names of tools.
func notInNames(r rune) bool {
	return (r < 'a' || r > 'z') && (r < 'A' || r > 'Z') && (r < '0' || r > '9') && !strings.ContainsRune("_-.:", r)
}
