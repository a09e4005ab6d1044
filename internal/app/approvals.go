package app

import (
	"context"

	"github.com/capgate/capgate/gateway"
	"github.com/capgate/capgate/gateway/admin/approval"
	"github.com/capgate/capgate/internal/settings"
	"github.com/capgate/capgate/internal/telemetry"
	"github.com/capgate/capgate/policy"
	"github.com/capgate/capgate/policy/approvals"
)

// newApprovals returns the approvals service with its endpoints.
func (p *App) newApprovals(s *settings.Settings, metrics *telemetry.Metrics) (err error) {
	cfg := s.Config.Approvals
	o := approvals.Options{Current: p.current, Secrets: p.secretsOf, Keys: s.ApprovalKeys, TTL: cfg.TTL, SessionTTL: cfg.SessionTTL,
		MaxOpen: cfg.MaxPending}
	o.Answered = func(a *approvals.Approval) { metrics.ObserveAnswer(a.Tenant, a.Answered.Sub(a.Created)) }
	if p.rules != nil {
		o.Rules = notifyingRules{p.rules, p.decider}
	}
	if p.approvals, err = approvals.New(p.store.Approvals(), o); err != nil {
		return err
	}
	p.approvals.SetPublicURL(s.Config.PublicURL)
	p.approvals.SetAnswerRules(answerRulesOf(s.Config))
	p.approvalsAPI = approval.New(approval.Config{
		Approvals: p.approvals, Tenants: p.auth.roster, Across: p.store.Approvals(), Status: gateway.GRPCStatus,
		Log: p.log, Audit: p.audit,
		KeyName: p.auth.all.KeyName, Key: p.auth.all.Key, Follow: p.persons.sessions.Follow, StillValid: p.auth.all.StillValid,
	})
	if err = metrics.Add(p.approvals, p.pending.Metrics(func(of string) string { return metrics.Tenant(of).Label() })); err != nil {
		return err
	}
	return p.newWebhooks(s, metrics)
}

// notifyingRules are rules that invalidate this replica's decisions at once.
type notifyingRules struct {
	approvals.Rules
	decider *policy.Decider
}

func (r notifyingRules) Set(ctx context.Context, rule policy.Rule) error {
	err := r.Rules.Set(ctx, rule)
	// also after an error, because the rule may have been set
	r.decider.Invalidate(policy.Change{Tenant: rule.Tenant, Name: rule.Name})
	return err
}
