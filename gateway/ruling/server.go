package ruling

import (
	"context"
	"errors"

	"github.com/grpc-ecosystem/grpc-gateway/v2/runtime"
	"google.golang.org/grpc"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/capgate/capgate/gateway/operators"
	"github.com/capgate/capgate/gateway/paging"
	"github.com/capgate/capgate/internal/audit"
	"github.com/capgate/capgate/internal/call"
	"github.com/capgate/capgate/internal/tenant"
	"github.com/capgate/capgate/policy"
	capgatepb "github.com/capgate/capgate/proto/capgate/v1"
)

const (
	defaultPage = 100
	maxPage     = 1000
)

// Decider is what decides on the calls of this replica. It hears of a change before whoever
// made it does that all is well, and so before the feed tells it.
type Decider interface {
	Explain(ctx context.Context, rules policy.Store, c *call.Call) (policy.Decision, []policy.Look, error)
	Changed(policy.Change)
}

// Rules are one set of rules.
type Rules interface {
	policy.Rules
	policy.Store
}

// New makes the service, of the rules in force and the candidates. Both are nil where the
// configuration has none. toStatus is the gateway's table of gRPC codes for refusals. Changes
// are recorded in log; nil: nowhere.
func New(rules, candidates Rules, decider Decider, toStatus func(*call.Refusal) *status.Status, log *audit.Log) operators.Service {
	s := &server{rules: rules, candidates: candidates, decider: decider, status: toStatus, audit: log}
	return operators.Service{
		GRPC: func(g *grpc.Server) { capgatepb.RegisterPoliciesServer(g, s) },
		JSON: func(ctx context.Context, mux *runtime.ServeMux) error {
			return capgatepb.RegisterPoliciesHandlerServer(ctx, mux, s)
		},
		Patterns: []string{"GET /v1/policies", "PUT /v1/policies", "DELETE /v1/policies", "GET /v1/policies:explain"},
	}
}

// server is capgate.v1.Policies.
type server struct {
	capgatepb.UnimplementedPoliciesServer
	rules, candidates Rules
	decider           Decider
	status            func(*call.Refusal) *status.Status
	audit             *audit.Log
}

// set is the set of rules that a request is about.
func (s *server) set(req interface{ GetCandidate() bool }) (Rules, error) {
	switch {
	case s.rules == nil:
		return nil, refusedOff
	case req.GetCandidate():
		return s.candidates, nil
	}
	return s.rules, nil
}

var refusedOff = &call.Refusal{Kind: call.FailedPrecondition, Reason: "POLICIES_OFF",
	Message: "this gateway has no rules: its configuration has no policies block"}

// SetPolicy implements capgatepb.PoliciesServer.
func (s *server) SetPolicy(ctx context.Context, req *capgatepb.SetPolicyRequest) (*capgatepb.SetPolicyResponse, error) {
	p := req.GetPolicy()
	set, err := s.set(p)
	if err != nil {
		return nil, s.refused(err)
	}
	r, err := ruleOf(p)
	if err == nil {
		var ok bool
		if r.Verdict, ok = call.ParseVerdict(p.GetPolicy()); !ok {
			err = invalid("policy", "it must be allow, ask or block")
		}
	}
	if err != nil {
		return nil, s.refused(err)
	}
	err = set.Set(ctx, r)
	s.decider.Changed(policy.Change{Tenant: r.Tenant, Name: r.Name}) // also where it is not known whether it was set
	if err != nil {
		return nil, s.refused(err)
	}
	s.record("set", &r, p.GetCandidate())
	return &capgatepb.SetPolicyResponse{Policy: policyOf(&r, p.GetCandidate())}, nil
}

// DeletePolicy implements capgatepb.PoliciesServer.
func (s *server) DeletePolicy(ctx context.Context, req *capgatepb.DeletePolicyRequest) (*capgatepb.DeletePolicyResponse, error) {
	set, err := s.set(req)
	if err != nil {
		return nil, s.refused(err)
	}
	r, err := ruleOf(req)
	if err != nil {
		return nil, s.refused(err)
	}
	was, err := set.Delete(ctx, r.Tenant, r.Name)
	s.decider.Changed(policy.Change{Tenant: r.Tenant, Name: r.Name})
	switch {
	case err != nil:
		return nil, s.refused(err)
	case !was:
		return nil, s.refused(&call.Refusal{Kind: call.NotFound, Reason: "POLICY_UNKNOWN", Message: "there is no rule about exactly this"})
	}
	s.record("deleted", &r, req.GetCandidate())
	return new(capgatepb.DeletePolicyResponse), nil
}

// record leaves a change of a rule in the audit log.
func (s *server) record(what string, r *policy.Rule, candidate bool) {
	kind, verdict, by := "rule.", "", r.By
	if candidate {
		kind = "candidate."
	}
	if what == "set" {
		verdict = r.Verdict.String()
	}
	if by == "" {
		by = "operator"
	}
	s.audit.Change(&audit.Change{Actor: by, What: kind + what, Tenant: r.Tenant, On: []audit.On{
		{Name: "user", Value: r.User}, {Name: "agent", Value: r.Agent}, {Name: "capability", Value: r.Capability}, {Name: "tool", Value: r.Tool}, {Name: "policy", Value: verdict},
	}})
}

// ListPolicies implements capgatepb.PoliciesServer.
func (s *server) ListPolicies(ctx context.Context, req *capgatepb.ListPoliciesRequest) (*capgatepb.ListPoliciesResponse, error) {
	set, err := s.set(req)
	if err != nil {
		return nil, s.refused(err)
	}
	of, err := tenantOf(req)
	if err != nil {
		return nil, s.refused(err)
	}
	size, after, refusal := paging.Read(req, defaultPage, maxPage, "POLICY_INVALID")
	if refusal != nil {
		return nil, s.refused(refusal)
	}
	rules, next, err := set.List(ctx, of, after, size)
	if err != nil {
		return nil, s.refused(err)
	}
	resp := &capgatepb.ListPoliciesResponse{NextPageToken: paging.Token(next)}
	for i := range rules {
		resp.Policies = append(resp.Policies, policyOf(&rules[i], req.GetCandidate()))
	}
	return resp, nil
}

// refused is an error as gRPC has it.
func (s *server) refused(err error) error {
	var refusal *call.Refusal
	switch {
	case errors.As(err, &refusal):
	case errors.Is(err, policy.ErrFull):
		refusal = &call.Refusal{Kind: call.ResourceExhausted, Reason: "POLICIES_FULL", Message: err.Error()}
	default:
		refusal = &call.Refusal{Kind: call.Unavailable, Reason: "POLICIES_UNAVAILABLE", Message: err.Error()}
	}
	return s.status(refusal).Err()
}

func policyOf(r *policy.Rule, candidate bool) *capgatepb.Policy {
	p := &capgatepb.Policy{
		Tenant: r.Tenant, Global: r.Tenant == "", User: r.User, Agent: r.Agent, Capability: r.Capability, Tool: r.Tool, Policy: r.Verdict.String(),
		SetBy: r.By, Candidate: candidate, Name: nameOf(r, candidate),
	}
	if !r.At.IsZero() {
		p.UpdateTime, p.CreateTime = timestamppb.New(r.At), timestamppb.New(r.Since)
	}
	return p
}

func orDefault(name string) string {
	if name == "" {
		return tenant.Default
	}
	return name
}
