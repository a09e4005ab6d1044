package daily

import (
	"cmp"
	"context"
	"slices"

	"github.com/capgate/capgate/internal/call"
	"github.com/capgate/capgate/internal/ratelimit"
	"github.com/capgate/capgate/internal/tenant"
)

// Days returns the uses of a tenant's limits on the last days, the oldest first; nil means the settings of a gateway
// without tenants. It lists the current limits, and those that were in use.
func (l *Log) Days(ctx context.Context, s *tenant.Settings, days int) ([]Use, error) {
	of, _ := l.cfg.Limits.LimitsOf(s)
	if of.ID == "" {
		return nil, nil
	}
	today := day(l.cfg.Now())
	return l.cfg.Store.Uses(ctx, of, today-int64(min(days, Days))+1, today)
}

// Near returns the quotas of a tenant of which most is used now.
func (l *Log) Near(ctx context.Context, s *tenant.Settings) (near []Use, err error) {
	of, limits := l.cfg.Limits.LimitsOf(s)
	if len(limits) == 0 {
		return nil, nil
	}
	all, err := l.cfg.Store.NearUses(ctx, of)
	today := day(l.cfg.Now())
	for _, u := range all {
		if u.Near() && u.Period == period(u.Limit, today) && has(limits, &u) {
			near = append(near, u)
		}
	}
	return near, err
}

// period returns the number of a quota's period that has a day.
func period(of call.Limit, day int64) int64 {
	if of == call.PerMonth {
		return Month(day)
	}
	return day
}

// has reports whether a use is of one of the limits, as it is now.
func has(limits []ratelimit.LimitUsage, u *Use) bool {
	for i := range limits {
		l := &limits[i]
		if l.Limit == u.Limit && l.Most == u.Most && l.Name == (ratelimit.Name{Per: u.Per, Capability: u.Capability,
			Tool: u.Tool}) {
			return true
		}
	}
	return false
}

// SettingsOf returns the settings of a tenant, if it exists; nil means those of a gateway without tenants.
type SettingsOf func(ctx context.Context, id string) (s *tenant.Settings, exists bool, err error)

// TenantUse is the use of a tenant's quota.
type TenantUse struct {
	Tenant string
	Use
}

// maxPages bounds the pages of tenants at which NearTenants looks.
const maxPages = 10

// NearTenants returns at most most tenants that have used most of a quota, with the most used one of each, and about
// how many there are; named nil means all tenants. It removes those from the store that do not exist.
func (l *Log) NearTenants(ctx context.Context, named []string, most int, settings SettingsOf) (near []TenantUse,
	all int, err error) {
	calm := 0 // tenants whose limits were changed
	for range maxPages {
		ids, count, err := l.cfg.Store.NearTenants(ctx, named, len(near)+calm, most-len(near))
		if err != nil {
			return near, 0, err
		}
		var gone []string
		for _, id := range ids {
			s, exists, err := settings(ctx, id)
			if err != nil {
				return near, 0, err
			}
			if !exists {
				gone = append(gone, id)
				continue
			}
			uses, err := l.Near(ctx, s)
			if err != nil {
				return near, 0, err
			}
			if len(uses) == 0 {
				calm++
				continue
			}
			near = append(near, TenantUse{id, slices.MaxFunc(uses, func(a, b Use) int {
				return cmp.Compare(a.Used*b.Most, b.Used*a.Most)
			})})
		}
		if err = l.cfg.Store.ForgetNear(ctx, gone); err != nil {
			return near, 0, err
		}
		if all = count - len(gone) - calm; len(near) == most || len(ids) == 0 {
			break
		}
	}
	return near, all, nil
}
