package rules

import (
	"context"
	"errors"
	"time"

	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/capgate/capgate/gateway/admin"
	"github.com/capgate/capgate/internal/audit"
	"github.com/capgate/capgate/internal/call"
	"github.com/capgate/capgate/internal/lib/restjson"
	"github.com/capgate/capgate/internal/operator"
	"github.com/capgate/capgate/internal/tenant"
	"github.com/capgate/capgate/policy"
	capgatepb "github.com/capgate/capgate/proto/capgate/v1"
)

// Decider decides the calls of this replica. It must learn of a change before the request succeeds, and so before the
// change feed delivers it.
type Decider interface {
	Explain(ctx context.Context, c *call.Call, rules ...policy.Store) (policy.Decision, []policy.Evaluation, error)
	// ExplainAll returns the decisions of Explain on many calls. The store may be nil.
	ExplainAll(ctx context.Context, calls []*call.Call, rules policy.Store) ([]policy.Decision, error)
	Invalidate(policy.Change)
}

// Rules stores a set of rules.
type Rules interface {
	policy.Rules
	policy.Store
}

// Config configures the service. Rules and Candidates are nil if rules are not configured.
type Config struct {
	Rules, Candidates Rules // the rules in effect, and the candidates
	// AcceptLoss accepts that the store has lost rules. It reports whether a replica had detected a loss. nil without
	// Rules.
	AcceptLoss    func(ctx context.Context) (was bool, err error)
	Decider       Decider
	Tenants       *tenant.Roster // nil means only tenant.Default exists
	FilterTenants FilterTenants  // nil means every tenant is searched
	// RuleTenants is optional. If nil, rules of unknown tenants are only listed by the tenant's name.
	RuleTenants RuleTenants
	// Recent returns the recent calls to which candidates are applied; optional.
	Recent  Recent
	Catalog Catalog    // nil means names of capabilities and tools are not checked
	Audit   *audit.Log // audit log of changes; optional
	// Approvers describes the people who may answer the approvals of a call; optional.
	Approvers func(tenant, capability, tool string) string
}

// FilterTenants returns those of the tenants that have rules.
type FilterTenants func(ctx context.Context, tenants []string, candidate bool) ([]string, error)

// RuleTenants lists all tenants that have, or had, rules, including unknown ones. An empty name means no tenant.
type RuleTenants func(ctx context.Context) ([]string, error)

// New returns the service.
func New(cfg Config) admin.Service {
	service := admin.NewService[capgatepb.PoliciesServer](&server{Config: cfg}, capgatepb.RegisterPoliciesServer,
		capgatepb.RegisterPoliciesHandlerServer)
	service.Fault = fault
	return service
}

// server implements capgate.v1.Policies.
type server struct {
	capgatepb.UnimplementedPoliciesServer
	Config
}

// set returns the set of rules of a request.
func (s *server) set(req interface{ GetCandidate() bool }) (Rules, error) {
	switch {
	case s.Rules == nil:
		return nil, refusedOff
	case req.GetCandidate():
		return s.Candidates, nil
	}
	return s.Rules, nil
}

var refusedOff = &call.Refusal{Kind: call.FailedPrecondition, Reason: "POLICIES_OFF",
	Message: "rules are off: the configuration has no policies block"}

// SetPolicy implements capgatepb.PoliciesServer.
func (s *server) SetPolicy(ctx context.Context, req *capgatepb.SetPolicyRequest) (*capgatepb.SetPolicyResponse,
	error) {
	p := req.GetPolicy()
	set, err := s.set(p)
	if err != nil {
		return nil, err
	}
	r, err := s.ruleOf(ctx, p)
	if err == nil {
		var ok bool
		if r.Verdict, ok = call.ParseVerdict(p.GetPolicy()); !ok {
			err = invalid("policy", "it must be allow, ask or block")
		}
	}
	if end := p.GetExpireTime(); err == nil && end != nil {
		if r.Expires = end.AsTime(); end.CheckValid() != nil || !r.Expires.After(time.Now()) {
			err = invalid("expire_time", "it must be in the future")
		}
	}
	if err == nil && !req.GetForce() {
		err = s.known(ctx, &r, "; use force (--force) to set the rule anyway")
	}
	if err != nil {
		return nil, err
	}
	r.By = operator.Authenticated(ctx)
	err = set.Set(ctx, r)
	// also after an error, because the rule may have been set
	s.Decider.Invalidate(policy.Change{Tenant: r.Tenant, Name: r.Name})
	if err != nil {
		return nil, err
	}
	s.record(ctx, "set", &r, p.GetCandidate())
	return &capgatepb.SetPolicyResponse{Policy: policyOf(&r, p.GetCandidate())}, nil
}

// DeletePolicy implements capgatepb.PoliciesServer.
func (s *server) DeletePolicy(ctx context.Context,
	req *capgatepb.DeletePolicyRequest) (*capgatepb.DeletePolicyResponse, error) {
	set, err := s.set(req)
	if err != nil {
		return nil, err
	}
	r, err := s.ruleOf(ctx, req)
	if err != nil {
		return nil, err
	}
	was, err := set.Delete(ctx, r.Tenant, r.Name)
	s.Decider.Invalidate(policy.Change{Tenant: r.Tenant, Name: r.Name})
	switch {
	case err != nil:
		return nil, err
	case !was:
		return nil, s.noRule(ctx, set, &r, req.GetCandidate())
	}
	s.record(ctx, "deleted", &r, req.GetCandidate())
	return new(capgatepb.DeletePolicyResponse), nil
}

// AcceptLoss implements capgatepb.PoliciesServer.
func (s *server) AcceptLoss(ctx context.Context, _ *capgatepb.AcceptLossRequest) (*capgatepb.AcceptLossResponse,
	error) {
	if s.Rules == nil {
		return nil, refusedOff
	}
	was, err := s.Config.AcceptLoss(ctx)
	switch {
	case err != nil:
		return nil, err
	case !was:
		return nil, refusedNotLost
	}
	admin.Record(ctx, s.Audit, "rules.loss_accepted", "")
	return new(capgatepb.AcceptLossResponse), nil
}

var refusedNotLost = &call.Refusal{Kind: call.FailedPrecondition, Reason: "RULES_NOT_LOST",
	Message: "no replica has detected lost rules"}

// record writes a change of a rule to the audit log.
func (s *server) record(ctx context.Context, what string, r *policy.Rule, candidate bool) {
	kind, verdict := "rule.", ""
	if candidate {
		kind = "candidate."
	}
	if what == "set" {
		verdict = r.Verdict.String()
	}
	admin.Record(ctx, s.Audit, kind+what, r.Tenant, "user", r.User, "agent", r.Agent, "capability", r.Capability,
		"tool", r.Tool, "policy", verdict)
}

// fault returns the refusal for an error of the store.
func fault(err error) *call.Refusal {
	if errors.Is(err, policy.ErrFull) {
		return &call.Refusal{Kind: call.ResourceExhausted, Reason: "POLICIES_FULL", Message: err.Error()}
	}
	return admin.StoreUnavailable("POLICIES_UNAVAILABLE", "rules", err)
}

func policyOf(r *policy.Rule, candidate bool) *capgatepb.Policy {
	p := &capgatepb.Policy{
		Tenant: r.Tenant, Global: r.Tenant == "", User: r.User, Agent: r.Agent, Capability: r.Capability,
		Tool: r.Tool, Policy: r.Verdict.String(),
		SetBy: r.By, Candidate: candidate, Name: nameOf(r, candidate),
	}
	if p.ExpireTime = restjson.Time(r.Expires); !r.At.IsZero() {
		p.UpdateTime, p.CreateTime = timestamppb.New(r.At), timestamppb.New(r.Since)
	}
	return p
}
