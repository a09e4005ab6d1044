package app

import (
	"crypto/rand"

	"github.com/capgate/capgate/internal/ratelimit"
	"github.com/capgate/capgate/internal/settings"
	"github.com/capgate/capgate/internal/telemetry"
)

// newQuotas makes what keeps tenants to their limits.
func (p *App) newQuotas(s *settings.Settings, metrics *telemetry.Metrics) {
	store := p.store.Limits(rand.Text())
	cfg := ratelimit.Config{
		Store: store, Budgets: store,
		Meter: func(tenant string) ratelimit.Meter { return meter{metrics, tenant} },
	}
	cfg.Replicas = p.sharers()
	p.quotas = ratelimit.New(cfg)
	p.quotas.Single(s.Single(s.Config.Multi))
}

// sharers counts the replicas that share the limits of tenants; nil: there is only this one.
func (p *App) sharers() func() int {
	if p.store.Stats().Embedded {
		return nil
	}
	return func() int { return p.prober.Stats().Replicas } // there is a prober before it runs
}
