package app

import (
	"crypto/rand"

	"github.com/capgate/capgate/gateway/admin/usage"
	"github.com/capgate/capgate/internal/ratelimit"
	"github.com/capgate/capgate/internal/tenant"
)

// quotasFeature keeps tenants to their limits.
func quotasFeature() feature {
	var quotas *ratelimit.Limiter
	return feature{
		build: func(p *App) error {
			store := p.store.Limits(rand.Text())
			quotas = ratelimit.New(ratelimit.Config{Store: store, Budgets: store, Replicas: p.sharers(),
				Meter: func(tenant string) ratelimit.Meter { return meter{p.metrics, tenant} },
				Label: p.metrics.LabelOf})
			quotas.Single(p.started.Single(p.started.Config.Multi))
			p.parts.Callers.Limits, p.parts.Callers.Replicas = quotas, p.sharers()
			p.parts.services = append(p.parts.services, usage.New(quotas,
				func() *tenant.Roster { return p.auth.roster }, p.answers)) // the tenants are read later
			return p.metrics.Add(quotas)
		},
		apply: func(p *App, c *change) {
			if c.reloaded {
				quotas.Single(c.Single(p.started.Config.Multi)) // until a restart
			}
		},
		run: func(_ *App, w *work) { w.watch(quotas.Run) },
	}
}

// sharers counts the replicas that share the limits of tenants; nil: there is only this one.
func (p *App) sharers() func() int {
	if p.store.Stats().Embedded {
		return nil
	}
	return func() int { return p.fleets.prober.Stats().Replicas } // there is a prober before it runs
}
