package app

import (
	"context"

	"github.com/capgate/capgate/internal/redisstore"
	"github.com/capgate/capgate/internal/telemetry"
	"github.com/capgate/capgate/internal/tenant"
)

// pendingSource lists the tenants with approvals, and counts those that are pending.
type pendingSource struct {
	*redisstore.ApprovalStore
	roster *tenant.Roster
}

// Tenants is an approvals.Tenants.
func (s pendingSource) Tenants(ctx context.Context, after string, most int) ([]string, string, error) {
	page, next, err := s.roster.Page(ctx, after, most)
	if err == nil {
		page, err = s.FilterTenants(ctx, page)
	}
	return page, next, err
}

func (p *App) pendingSource() pendingSource {
	return pendingSource{p.store.Approvals(), p.auth.roster}
}

// pendingByLabel sums pending approvals by tenant label; tenants beyond the maximum share one label.
func (p *App) pendingByLabel(metrics *telemetry.Metrics) map[string]telemetry.Pending {
	all := map[string]telemetry.Pending{}
	for of, found := range p.pending.Snapshot() {
		label := metrics.Tenant(of).Label()
		sum, there := all[label]
		if sum.Count += found.Count; !there || found.Oldest.Before(sum.Oldest) {
			sum.Oldest = found.Oldest
		}
		all[label] = sum
	}
	return all
}
