package app

import (
	"context"

	"github.com/capgate/capgate/internal/redisstore"
	"github.com/capgate/capgate/internal/tenant"
)

// pendingSource lists the tenants with approvals, and counts the pending ones.
type pendingSource struct {
	*redisstore.ApprovalStore
	roster *tenant.Roster
}

// Tenants returns an approvals.Tenants.
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
