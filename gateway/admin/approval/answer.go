package approval

import (
	"context"
	"errors"
	"unicode/utf8"

	"google.golang.org/protobuf/types/known/durationpb"

	"github.com/capgate/capgate/internal/audit"
	"github.com/capgate/capgate/internal/call"
	"github.com/capgate/capgate/internal/operator"
	"github.com/capgate/capgate/policy/approvals"
	capgatepb "github.com/capgate/capgate/proto/capgate/v1"
)

// unnamed is the author of an answer without a name.
const unnamed = operator.Unnamed

// Approve implements capgatepb.ApprovalsServer.
func (s *server) Approve(ctx context.Context, req *capgatepb.ApproveRequest) (*capgatepb.ApproveResponse, error) {
	shown, err := s.answer(ctx, req, s.Approvals.Approve)
	return &capgatepb.ApproveResponse{Approval: shown}, err
}

// Deny implements capgatepb.ApprovalsServer.
func (s *server) Deny(ctx context.Context, req *capgatepb.DenyRequest) (*capgatepb.DenyResponse, error) {
	shown, err := s.answer(ctx, req, s.Approvals.Deny)
	return &capgatepb.DenyResponse{Approval: shown}, err
}

// answering is the common part of both requests.
type answering interface {
	GetTenant() string
	GetApprovalId() string
	GetBy() string
	GetComment() string
	GetRemember() string
	GetValidFor() *durationpb.Duration
}

func (s *server) answer(ctx context.Context, req answering,
	give func(ctx context.Context, tenant, id string, answer approvals.Answer) (approvals.Approval,
		error)) (*capgatepb.Approval, error) {
	v, err := s.caller(ctx, req)
	if err != nil {
		return nil, err
	}
	if !v.answers {
		return nil, refusedAnswer
	}
	answer, err := answerOf(req)
	if err != nil {
		return nil, err
	}
	if answer.Who = v.approver; v.by != "" {
		answer.By = v.by
	}
	if v.user != "" || v.granted != nil || v.of != nil { // approvals of other tenants are invisible
		if _, err = s.get(ctx, &v, req.GetApprovalId()); err != nil {
			return nil, err
		}
	}
	if err = s.resolve(ctx, &v, req.GetApprovalId()); err != nil {
		return nil, err
	}
	if answer.Remember == approvals.Always && !v.rules {
		return nil, refusedAlways
	}
	a, err := give(ctx, v.tenant, req.GetApprovalId(), answer)
	var rule *approvals.RuleError
	if errors.As(err, &rule) { // whatever error it wraps
		err = &call.Refusal{Kind: call.Unavailable, Reason: "RULE_NOT_SET", Message: rule.Error()}
	}
	if err != nil {
		return nil, err
	}
	s.record(ctx, &a, &answer, "")
	p := s.shown(&a, &v)
	if c := a.Covered; c != nil {
		for i := range c.Approvals {
			s.record(ctx, &c.Approvals[i], &answer, a.ID)
		}
		p.AlsoAnswered, p.MoreMayWait = int32(len(c.Approvals)), c.Rest
	}
	return p, nil
}

// record writes an answer to the log and the audit log. If several people must answer, the approval may still be
// pending. by is the approval whose answer covers this one; empty means that it was answered itself.
func (s *server) record(ctx context.Context, a *approvals.Approval, answer *approvals.Answer, by string) {
	state := a.State.String()
	if a.State == approvals.Pending {
		state = "answered"
	}
	s.Log.InfoContext(ctx, "approval answered", "approval", a.ID, "answer", state, "remember",
		answer.Remember.String(), "by", answer.By,
		"tenant", a.Tenant, "user", a.User, "agent", a.Agent, "capability", a.Capability, "tool", a.Tool)
	targets := audit.Targets("approval", a.ID, "remember", answer.Remember.String(), "capability", a.Capability,
		"tool", a.Tool, "user", a.User, "agent", a.Agent)
	if by != "" {
		targets = append(targets, audit.Target{Name: "covered_by", Value: by})
	}
	s.Audit.RecordChange(&audit.Change{Actor: answer.By, What: "approval." + state, Tenant: a.Tenant, Targets: targets})
}

func answerOf(req answering) (a approvals.Answer, err error) {
	a = approvals.Answer{By: req.GetBy(), Comment: req.GetComment()}
	if a.By == "" {
		a.By = unnamed
	}
	var ok bool
	switch a.Remember, ok = approvals.ParseRemember(req.GetRemember()); {
	case !ok:
		return a, invalid("remember", "it must be call, session or always")
	case len(a.By) > maxName || !utf8.ValidString(a.By):
		return a, invalid("by", "it must have at most 256 bytes of UTF-8")
	case len(a.Comment) > maxComment || !utf8.ValidString(a.Comment):
		return a, invalid("comment", "it must have at most 1024 bytes of UTF-8")
	}
	if v := req.GetValidFor(); v != nil {
		if a.ValidFor = v.AsDuration(); v.CheckValid() != nil || a.ValidFor <= 0 {
			return a, invalid("valid_for", "it must be a duration of 1 s or more")
		}
	}
	return a, nil
}
