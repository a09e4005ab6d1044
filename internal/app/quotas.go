package app

import (
	"crypto/rand"
	"strconv"

	"github.com/capgate/capgate/gateway/admin/summary"
	"github.com/capgate/capgate/gateway/admin/usage"
	"github.com/capgate/capgate/internal/audit"
	"github.com/capgate/capgate/internal/call"
	"github.com/capgate/capgate/internal/ratelimit"
	"github.com/capgate/capgate/internal/ratelimit/daily"
	"github.com/capgate/capgate/internal/tenant"
	"github.com/capgate/capgate/policy/approvals/notice"
)

// quotasFeature keeps tenants to their limits.
func quotasFeature() feature {
	var quotas *ratelimit.Limiter
	var uses *daily.Log
	return feature{
		build: func(p *App) error {
			store := p.store.Limits(rand.Text())
			quotas = ratelimit.New(ratelimit.Config{Store: store, Budgets: store, Replicas: p.sharers(),
				Meter: func(tenant string) ratelimit.Meter { return meter{p.metrics, tenant} },
				Label: p.metrics.LabelOf})
			quotas.Single(p.started.Single(p.started.Config.Multi))
			uses = daily.New(daily.Config{Limits: quotas, Store: p.store.DailyUses(), Notice: p.nearLimit})
			p.uses = uses
			p.parts.Callers.Limits, p.parts.Callers.Replicas = quotas, p.sharers()
			p.parts.services = append(p.parts.services, usage.New(quotas, uses,
				func() *tenant.Roster { return p.auth.roster }, p.answers)) // the tenants are read later
			return p.metrics.Add(quotas)
		},
		apply: func(p *App, c *change) {
			if c.reloaded {
				quotas.Single(c.Single(p.started.Config.Multi)) // until a restart
			}
		},
		run: func(_ *App, w *work) {
			w.watch(quotas.Run)
			w.loop("use of limits", uses.Run)
		},
	}
}

// nearLimit notes that a tenant has used 80% of a quota: in the log, among the changes, and as an event of notices.
func (p *App) nearLimit(tenant string, u *daily.Use) {
	p.log.Warn("tenant near a limit", "tenant", tenant, "limit", u.Limit.String(), "per", u.Per,
		"capability", u.Capability, "tool", u.Tool, "period", u.Date(), "used", u.Used, "max", u.Most)
	p.audit.RecordChange(&audit.Change{Actor: "process", What: "limit.near", Tenant: tenant,
		Targets: audit.Targets("limit", u.Limit.String(), "per", u.Per, "capability", u.Capability, "tool", u.Tool,
			"period", u.Date(), "used", strconv.FormatInt(u.Used, 10), "max", strconv.FormatInt(u.Most, 10))})
	near := nearLimitOf(tenant, u)
	p.approvals.webhooks.NearLimit(&notice.Limit{Tenant: tenant, Text: near.Text(), Limit: u.Limit.String(), Per: u.Per,
		Capability: u.Capability, Tool: u.Tool, Period: u.Date(), Used: u.Used, Max: u.Most})
}

// nearLimitOf returns the use of a quota as a summary has it.
func nearLimitOf(tenant string, u *daily.Use) summary.NearLimit {
	period := "a day"
	if u.Limit == call.PerMonth {
		period = "a month"
	}
	return summary.NearLimit{Tenant: tenant, Period: period, Used: u.Used, Most: u.Most, Per: u.Per,
		Capability: u.Capability, Tool: u.Tool}
}

// sharers counts the replicas that share the limits of tenants; nil: there is only this one.
func (p *App) sharers() func() int {
	if p.store.Stats().Embedded {
		return nil
	}
	return func() int { return p.fleets.prober.Stats().Replicas } // there is a prober before it runs
}
