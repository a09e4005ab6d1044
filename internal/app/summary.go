package app

import (
	"cmp"
	"context"
	"net"
	"slices"
	"sync/atomic"

	"github.com/capgate/capgate/gateway/admin/summary"
	"github.com/capgate/capgate/internal/call"
	"github.com/capgate/capgate/internal/ratelimit/daily"
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

// maxLetters is how many dead letters a summary counts.
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

// nearLimits returns tenants that have used most of a quota, with the most used one of each, and the number of all.
func (p *App) nearLimits(ctx context.Context, tenants []string, most int) (near []summary.NearLimit, all int,
	err error) {
	ids, all, err := p.uses.NearTenants(ctx, tenants, most)
	for i := 0; i < len(ids) && err == nil; i++ {
		var uses []daily.Use
		if uses, err = p.nearUses(ctx, ids[i]); len(uses) == 0 {
			continue
		}
		u := slices.MaxFunc(uses, func(a, b daily.Use) int { return cmp.Compare(a.Used*b.Most, b.Used*a.Most) })
		period := "a day"
		if u.Limit == call.PerMonth {
			period = "a month"
		}
		near = append(near, summary.NearLimit{Tenant: ids[i], Period: period, Used: u.Used, Most: u.Most})
	}
	return near, all, err
}

// nearUses returns the quotas of which a tenant has used most; none of a tenant that does not exist.
func (p *App) nearUses(ctx context.Context, id string) ([]daily.Use, error) {
	if p.auth.roster == nil {
		return p.uses.Near(ctx, nil)
	}
	of, refusal := p.auth.roster.Directory.Settings(ctx, id)
	switch {
	case refusal != nil:
		return nil, refusal
	case of == nil:
		return nil, nil
	}
	return p.uses.Near(ctx, of)
}
