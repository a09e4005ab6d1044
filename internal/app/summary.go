package app

import (
	"context"
	"net"
	"slices"
	"sync/atomic"

	"github.com/capgate/capgate/gateway/admin/summary"
	"github.com/capgate/capgate/internal/tenant"
	"github.com/capgate/capgate/policy/approvals/webhook"
)

// summaryFeature shows operators the state of all at a glance.
func summaryFeature() feature {
	var publicURL atomic.Pointer[string]
	return feature{build: func(p *App) error {
		cfg := p.summary()
		cfg.Public = func() summary.Port {
			port := summary.Port{TLS: p.started.ServerTLS != nil, Credential: p.started.Config.Multi}
			if url := publicURL.Load(); url != nil {
				port.URL = *url
			}
			if at, ok := p.ports.public.Addr().(*net.TCPAddr); ok {
				port.Number = at.Port
			}
			return port
		}
		p.parts.services = append(p.parts.services, summary.New(cfg))
		return nil
	}, apply: func(_ *App, c *change) { publicURL.Store(&c.Config.PublicURL) }}
}

func (p *App) summary() summary.Config {
	return summary.Config{
		Recent: p.recent,
		Fleets: func() (all []summary.Fleet) {
			for _, f := range p.fleets.routing.Table().Fleets() {
				all = append(all, summary.Fleet{Capability: f.Capability, Backends: len(f.Backends),
					Usable: f.Stats().Usable})
			}
			return all
		},
		Pending: p.pendingOf,
		Near:    p.nearLimits,
		Letters: func(ctx context.Context) (int, error) {
			letters, err := p.letters().Dead(ctx, 0, maxLetters)
			letters = slices.DeleteFunc(letters, func(l webhook.Letter) bool { return l.Malformed })
			return len(letters), err
		},
		Drifted: func() (all []summary.Drift) {
			for s := range p.tools.catalog.Stats() {
				if s.Drifted > 0 {
					all = append(all, summary.Drift{Capability: s.Capability, Tools: s.Drifted, First: s.FirstDrifted})
				}
			}
			return all
		},
	}
}

// maxLetters is the maximum number of dead letters that a summary counts.
const maxLetters = 1000

// pendingOf counts the approvals of tenants that wait for an answer; nil: of all.
func (p *App) pendingOf(_ context.Context, of []string) (sum summary.Pending, err error) {
	for tenant, found := range p.approvals.pending.Snapshot() {
		if of != nil && !slices.Contains(of, tenant) || found.Count == 0 {
			continue
		}
		if sum.Count += found.Count; sum.Oldest.IsZero() || found.Oldest.Before(sum.Oldest) {
			sum.Oldest = found.Oldest
		}
	}
	return sum, nil
}

// nearLimits returns tenants that have used most of a quota, with the most used one of each, and about how many there
// are.
func (p *App) nearLimits(ctx context.Context, tenants []string, most int) (near []summary.NearLimit, all int,
	err error) {
	found, all, err := p.uses.NearTenants(ctx, tenants, most, p.settingsOf)
	for i := range found {
		near = append(near, nearLimitOf(found[i].Tenant, &found[i].Use))
	}
	return near, all, err
}

// settingsOf implements daily.SettingsOf.
func (p *App) settingsOf(ctx context.Context, id string) (of *tenant.Settings, exists bool, err error) {
	if p.auth.roster == nil {
		return nil, id == tenant.Default, nil
	}
	of, refusal := p.auth.roster.Directory.Settings(ctx, id)
	if refusal != nil {
		return nil, false, refusal
	}
	return of, of != nil, nil
}
