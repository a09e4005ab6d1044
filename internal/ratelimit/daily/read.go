package daily

import (
	"context"

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

// NearTenants returns at most most tenants that may have quotas of which most is used, and how many there are; named
// nil means all tenants.
func (l *Log) NearTenants(ctx context.Context, named []string, most int) (ids []string, all int, err error) {
	return l.cfg.Store.NearTenants(ctx, named, most)
}
