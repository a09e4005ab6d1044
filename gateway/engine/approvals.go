package engine

import (
	"context"
	"time"

	grpcstatus "google.golang.org/grpc/status"
	"google.golang.org/protobuf/encoding/protowire"

	"github.com/capgate/capgate/gateway/status"
	"github.com/capgate/capgate/internal/call"
	"github.com/capgate/capgate/internal/lib/recovery"
	"github.com/capgate/capgate/policy/approvals"
)

// askTimeout is the maximum delay of an event that requests an approval.
const askTimeout = 5 * time.Second

// createApproval creates an approval for an engine's question before the client receives the event, and sends the
// answer to the engine. If that fails, the question cannot be answered and expires.
func (g *Guard) createApproval(ctx context.Context, p *Call, q *question) {
	ctx, cancel := context.WithTimeout(ctx, askTimeout)
	defer cancel()
	r := &approvals.Request{
		Tenant: p.Tenant, User: p.User, Agent: p.Agent, Capability: p.Fleet, Tool: q.tool, Session: p.Session,
		RequestID: p.RequestID,
		Args:      q.args, Level: level, Until: q.until,
	}
	a, _, refusal := g.cfg.Approvals.Create(ctx, r)
	if refusal == nil {
		lasts := time.Until(a.Expires) + time.Minute
		if g.bindQuestion(ctx, p, q.id, a.ID, lasts) != nil {
			refusal = refusedUnavailable
		}
	}
	if refusal != nil {
		g.cfg.Log.Warn("approval of an engine's action not created", "capability", p.Fleet, "tenant", p.Tenant,
			"reason", refusal.Reason)
		return
	}
	pending := &pendingQuestion{call: *p, question: q.id, approval: a, request: r}
	g.running.Add(1)
	go func() {
		defer g.running.Done()
		defer recovery.Recover("engine approval")
		g.awaitAnswer(pending)
	}()
}

// anyTenant is not a tenant. All questions of an engine are bound under it, so that a tenant cannot answer a question
// of another one.
const anyTenant = "*"

// bindQuestion stores the approval of a question, first for all tenants.
func (g *Guard) bindQuestion(ctx context.Context, p *Call, question, approval string, lasts time.Duration) error {
	for _, tenant := range []string{anyTenant, p.Tenant} {
		if err := g.cfg.Questions.Bind(ctx, tenant, p.engine(), question, approval, lasts); err != nil {
			return err
		}
	}
	return nil
}

// level is the Level of engines' approvals.
const level = "engine"

// pendingQuestion is a question that waits for an approval.
type pendingQuestion struct {
	call     Call
	question string
	approval approvals.Approval
	request  *approvals.Request
}

// awaitAnswer waits for the answer and sends it to the engine, once.
func (g *Guard) awaitAnswer(a *pendingQuestion) {
	ctx, cancel := context.WithDeadline(g.alive, a.approval.Expires)
	defer cancel()
	for {
		now, err := g.cfg.Approvals.Wait(ctx, a.approval.Tenant, a.approval.ID)
		switch {
		case ctx.Err() != nil && now.State == approvals.Pending:
			return
		case err == nil && now.State == approvals.Approved:
			g.redeemApproval(a)
			return
		case err == nil && now.State == approvals.Denied:
			g.resolveQuestion(a, false)
			return
		case err == nil && now.State != approvals.Pending:
			return // expired, or another replica has sent the answer
		}
		if !g.pause(ctx, retryInterval) {
			return
		}
	}
}

// retryInterval is the interval of retries.
const retryInterval = time.Second

// pause waits for a time. It returns false if ctx ends before.
func (g *Guard) pause(ctx context.Context, d time.Duration) bool {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-ctx.Done():
		return false
	case <-t.C:
		return true
	}
}

// redeemApproval redeems the approval and sends the answer to the engine. Only one replica can redeem it.
func (g *Guard) redeemApproval(a *pendingQuestion) {
	ctx, cancel := context.WithTimeout(g.alive, askTimeout)
	defer cancel()
	if _, refusal := g.cfg.Approvals.Redeem(ctx, a.approval.ID, a.request); refusal == nil {
		g.resolveQuestion(a, true)
	} else {
		g.cfg.Log.Warn("approved action of an engine not redeemed", "capability", a.call.Fleet, "approval",
			a.approval.ID, "reason", refusal.Reason)
	}
}

// resolveQuestion resolves the engine's question. A call that the engine may have received is not repeated.
func (g *Guard) resolveQuestion(a *pendingQuestion, approved bool) {
	req := protowire.AppendString(protowire.AppendTag(nil, 1, protowire.BytesType), a.question)
	req = protowire.AppendString(protowire.AppendTag(req, 2, protowire.BytesType), a.call.Session)
	if approved {
		req = protowire.AppendVarint(protowire.AppendTag(req, 3, protowire.VarintType), 1)
	}
	ctx, cancel := context.WithDeadline(g.alive, a.approval.Expires)
	defer cancel()
	for {
		_, err := g.subrequest(ctx, &a.call, clients+"ResolveApproval", req)
		if err == nil {
			return
		}
		if status.ProgressOf(err) != call.NotSent || !g.pause(ctx, retryInterval) {
			g.cfg.Log.Warn("an engine may not have received the answer to an approval", "capability", a.call.Fleet,
				"approval", a.approval.ID, "error", grpcstatus.Code(err).String())
			return
		}
	}
}

// by returns the name of the approver.
func by(p *Call) string {
	switch {
	case p.User != "":
		return p.User
	case p.Key != "":
		return "key:" + p.Key
	}
	return "client"
}
