package main

import (
	"crypto/rand"

	"github.com/capgate/capgate/internal/observe"
	"github.com/capgate/capgate/internal/tenant"
	"github.com/capgate/capgate/internal/tenant/limits"
)

// newQuotas makes what keeps tenants to their limits.
func (p *process) newQuotas(s *settings, metrics *observe.Metrics) {
	cfg := limits.Config{
		Store: p.store.Limits(rand.Text()),
		Meter: func(tenant string) limits.Meter { return metrics.Tenant(tenant) },
	}
	if !p.store.Stats().Embedded {
		cfg.Replicas = func() int { return p.prober.Stats().Replicas } // there is a prober before it runs
	}
	p.quotas = limits.New(cfg)
	p.quotas.Single(s.single())
	metrics.WatchLeases(func() observe.Leases { return observe.Leases(p.quotas.Stats()) })
}

// single are the settings of the one tenant of a gateway without tenants; nil where there are tenants.
func (s *settings) single() *tenant.Settings {
	if s.cfg.Multi {
		return nil
	}
	return &tenant.Settings{ID: tenant.Default, Limits: s.cfg.Limits}
}
