package app

import (
	"context"

	"github.com/capgate/capgate/gateway/admin/approval"
	"github.com/capgate/capgate/internal/lib/sharedkey"
	"github.com/capgate/capgate/policy"
	"github.com/capgate/capgate/policy/approvals"
	"github.com/capgate/capgate/policy/approvals/webhook"
)

// approvalService has the approvals of calls, and the destinations of notices about them.
type approvalService struct {
	service  *approvals.Service
	api      *approval.Service
	pending  approvals.Backlogs // for metrics
	webhooks *webhook.Group     // and other destinations of notices
}

// approvalsFeature lets people decide about calls.
func approvalsFeature() feature {
	return feature{
		build: buildApprovals,
		apply: func(p *App, c *change) {
			p.approvals.service.SetPublicURL(c.Config.PublicURL)
			p.approvals.service.SetAnswerRules(c.Config.Approvals.Rules)
		},
		run: func(p *App, w *work) {
			w.loop("approvals", p.approvals.service.Run)
			w.loop("approvals", func(ctx context.Context) {
				p.approvals.pending.Run(ctx, p.approvals.service, p.pendingSource())
			})
			escalations := approvals.NewEscalations(p.approvals.service, p.pendingSource().Tenants)
			w.loop("escalations", escalations.Run)
		},
	}
}

func buildApprovals(p *App) (err error) {
	s, cfg := p.started, p.started.Config.Approvals
	o := cfg.Options
	o.Current, o.Secrets, o.Keys = p.current, p.secretsOf, sharedkey.Derive(s.Secrets, "arguments")
	o.SettingsKeys = p.secret.Keys("configurations")
	o.Answered = func(a *approvals.Approval) { p.metrics.ObserveAnswer(a.Tenant, a.Answered.Sub(a.Created)) }
	if p.rules.store != nil {
		o.Rules = notifyingRules{p.rules.store, p.rules.decider}
	}
	if p.approvals.service, err = approvals.New(p.store.Approvals(), o); err != nil {
		return err
	}
	p.approvals.service.SetPublicURL(s.Config.PublicURL)
	p.approvals.service.SetAnswerRules(cfg.Rules)
	p.approvals.api = approval.New(approval.Config{
		Approvals: p.approvals.service, Tenants: p.auth.roster, Across: p.store.Approvals(),
		Pending: p.store.Approvals().Pending, Log: p.log, Audit: p.audit,
		KeyName: p.auth.all.KeyName, Key: p.auth.all.Key, Follow: p.persons.sessions.Follow,
		StillValid: p.auth.all.StillValid,
	})
	err = p.metrics.Add(p.approvals.service,
		p.approvals.pending.Metrics(func(tenant string) string { return p.metrics.Tenant(tenant).Label() }))
	if err != nil {
		return err
	}
	p.parts.Policy.Approver = p.approvals.service
	p.parts.services = append(p.parts.services, p.approvals.api.Operators())
	p.parts.builtins = append(p.parts.builtins, p.approvals.api.Register)
	p.parts.leaving = append(p.parts.leaving, p.approvals.api.Leave)
	return nil
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
