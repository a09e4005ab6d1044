package app

import (
	"context"
	"time"

	"github.com/capgate/capgate/internal/call"
	"github.com/capgate/capgate/internal/lib/backoff"
	"github.com/capgate/capgate/internal/settings"
	"github.com/capgate/capgate/internal/telemetry"
	"github.com/capgate/capgate/internal/tenant"
)

// meter counts a tenant's rejections by limits, in the tenant's current series.
type meter struct {
	metrics *telemetry.Metrics
	tenant  string
}

// Limited implements limits.Meter.
func (m meter) Limited(l call.Limit, shadow bool) { m.metrics.Tenant(m.tenant).Limited(l, shadow) }

// declareLimits has the series of the file's limits be there from the beginning, at 0: an alert on their
// rate would not see the first refusal otherwise.
func declareLimits(s *settings.Settings, metrics *telemetry.Metrics) {
	declare := func(of string, l *tenant.Limits) {
		for _, kind := range l.Kinds() {
			metrics.Tenant(of).HasLimit(kind)
		}
	}
	if !s.Config.Multi {
		declare(tenant.Default, &s.Config.Limits)
	}
	all := s.Tenants()
	for i := range s.Config.Tenants { // in their order, as there may be more of them than labels
		of := all[s.Config.Tenants[i].ID]
		declare(of.ID, &of.Limits)
	}
}

// labelTime is from one look at a tenant that has series to that at the next.
const labelTime = 100 * time.Millisecond

// freeLabels removes the series of deleted tenants, until ctx ends.
func (i *authentication) freeLabels(ctx context.Context) {
	for all := i.metrics.Tenants(); ; all = i.metrics.Tenants() {
		for len(all) > 0 {
			of, refusal := i.directory.Settings(ctx, all[0])
			if of == nil && refusal == nil {
				i.metrics.ForgetTenant(all[0])
			}
			if all = all[1:]; !backoff.Sleep(ctx, labelTime) {
				return
			}
		}
		if !backoff.Sleep(ctx, labelTime) {
			return
		}
	}
}
