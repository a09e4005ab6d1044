package rules

import (
	"context"
	"errors"

	"github.com/capgate/capgate/internal/call"
	"github.com/capgate/capgate/internal/operator"
	"github.com/capgate/capgate/policy"
	capgatepb "github.com/capgate/capgate/proto/capgate/v1"
)

// ExplainPolicy implements capgatepb.PoliciesServer.
func (s *server) ExplainPolicy(ctx context.Context,
	req *capgatepb.ExplainPolicyRequest) (*capgatepb.ExplainPolicyResponse, error) {
	of, err := s.named(ctx, req.GetTenant())
	if err != nil {
		return nil, err
	}
	c := &call.Call{Tenant: of, User: req.GetUser(), Agent: req.GetAgent(), Capability: req.GetCapability(),
		Tool: req.GetTool()}
	for field, v := range map[string]string{"capability": c.Capability, "tool": c.Tool} {
		if v == "" || v == policy.Any {
			return nil, invalid(field, "it is required, because a single call is explained")
		}
	}
	effect := "; use force (--force) to explain it anyway"
	if req.GetForce() {
		effect = ""
	}
	unknown := s.known(ctx, &policy.Rule{Tenant: of, Name: policy.Name{Capability: c.Capability, Tool: c.Tool}}, effect)
	if unknown != nil && !req.GetForce() {
		return nil, unknown
	}
	set, err := s.set(req)
	if err != nil && req.GetCandidate() {
		return nil, err
	}
	var rules []policy.Store
	if set != nil {
		rules = append(rules, s.Rules)
	}
	if set != nil && req.GetCandidate() {
		rules = append(rules, s.Candidates)
	}
	decision, looks, err := s.Decider.Explain(ctx, c, rules...)
	if err != nil {
		return nil, err
	}
	resp := &capgatepb.ExplainPolicyResponse{Policy: decision.Verdict.String(), Level: decision.Level.String()}
	var absent *call.Refusal
	if errors.As(unknown, &absent) {
		resp.Unknown = absent.Message
	}
	if s.Approvers != nil && decision.Verdict == call.Ask {
		resp.Approvers = s.Approvers(c.Tenant, c.Capability, c.Tool)
	}
	global := operator.AllTenants(ctx) == nil // an operator of one tenant does not see global rules
	for i := range looks {
		if global || looks[i].Level != call.ByGlobal {
			resp.Looks = append(resp.Looks, lookOf(&looks[i]))
		}
	}
	if set == nil || req.GetCandidate() {
		return resp, nil
	}
	there, err := s.anyCandidates(ctx, c.Tenant)
	if err == nil && there {
		decision, _, err = s.Decider.Explain(ctx, c, s.Rules, s.Candidates)
		resp.CandidatePolicy, resp.CandidateLevel = decision.Verdict.String(), decision.Level.String()
	}
	if err != nil {
		return nil, err
	}
	return resp, nil
}

// anyCandidates reports whether any candidate may apply to a tenant's calls.
func (s *server) anyCandidates(ctx context.Context, tenant string) (bool, error) {
	for _, of := range []string{tenant, ""} {
		rules, _, err := s.Candidates.List(ctx, of, "", 1)
		if err != nil || len(rules) > 0 {
			return err == nil, err
		}
	}
	return false, nil
}

func lookOf(l *policy.Evaluation) *capgatepb.ExplainPolicyResponse_Look {
	look := &capgatepb.ExplainPolicyResponse_Look{
		Level: l.Level.String(), User: l.Name.User, Agent: l.Name.Agent, Capability: l.Name.Capability,
		Tool: l.Name.Tool, Decided: l.Decided,
	}
	if l.Matched {
		look.Policy = l.Verdict.String()
	}
	return look
}
