package engine

import (
	"context"
	"errors"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/encoding/protowire"

	"github.com/capgate/capgate/internal/call"
	"github.com/capgate/capgate/internal/lib/strictproto"
	"github.com/capgate/capgate/policy/approvals"
)

// resolve serves ResolveApproval. The answer to a question that the gateway has not seen is forwarded to the engine,
// if the caller may use the session: published engines only show the id in their own web page.
func (g *Guard) resolve(ctx context.Context, p *Call, path string, msg []byte) ([]byte, error) {
	var question []byte
	var approved bool
	err := fields(msg, &approvalRequest, func(r *strictproto.Reader) {
		switch r.Number {
		case 1:
			question = r.Value
		case 3:
			approved = r.Varint != 0
		}
	})
	if err != nil {
		return nil, strictproto.Refuse(err, refusedMalformed)
	}
	id, err := g.cfg.Questions.Bound(ctx, p.Tenant, p.engine(), string(question))
	if err != nil {
		return nil, refusedUnavailable
	}
	if id == "" {
		return g.resolveUnseen(ctx, p, path, msg, string(question))
	}
	if p.Session != "" && g.checkOwner(ctx, p, p.Session) != nil {
		return nil, refusedQuestion
	}
	answer := g.cfg.Approvals.Deny
	if approved {
		answer = g.cfg.Approvals.Approve
	}
	p.Sent()
	if _, err := answer(ctx, p.Tenant, id, approvals.Answer{By: by(p), Who: approver(p)}); err != nil {
		var refusal *call.Refusal
		if errors.As(err, &refusal) && refusal.Kind == call.NotFound {
			return nil, refusedQuestion
		}
		return nil, err
	}
	return protowire.AppendVarint(protowire.AppendTag(nil, 1, protowire.VarintType), 1), nil // ApprovalAck{received}
}

// approver returns the approver of an engine's question. Groups are unknown here: a question that requires a group
// must be answered at the approvals API.
func approver(p *Call) approvals.Approver {
	if p.Key == "" {
		return approvals.Approver{User: p.User, Unverified: true}
	}
	return approvals.Approver{User: p.User, Key: "key " + p.Key}
}

// resolveUnseen forwards the answer to a question that is not bound to this tenant. The engine only checks the id, so
// a question of another tenant is unknown, whichever session the call names.
func (g *Guard) resolveUnseen(ctx context.Context, p *Call, path string, msg []byte, question string) ([]byte, error) {
	if question == "" || p.MultiTenant && p.Session == "" {
		return nil, refusedQuestion
	}
	bound, err := g.cfg.Questions.Bound(ctx, anyTenant, p.engine(), question)
	if err != nil {
		return nil, refusedUnavailable
	}
	if bound != "" {
		return nil, refusedQuestion
	}
	switch refusal := g.checkOwner(ctx, p, p.Session); refusal {
	case nil:
	case refusedSession:
		return nil, refusedQuestion
	default:
		return nil, refusal
	}
	answer, err := g.forward(ctx, path, msg)
	if status.Code(err) == codes.Unknown { // the code of engines for unknown ids
		return nil, refusedQuestion
	}
	return answer, err
}

var refusedQuestion = &call.Refusal{Kind: call.NotFound, Reason: "ENGINE_APPROVAL_UNKNOWN",
	Message: "the approval does not exist, or is no longer pending"}
