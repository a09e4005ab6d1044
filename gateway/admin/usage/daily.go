package usage

import (
	"cmp"
	"context"
	"slices"
	"time"

	"github.com/capgate/capgate/internal/call"
	"github.com/capgate/capgate/internal/operator"
	"github.com/capgate/capgate/internal/ratelimit/daily"
	"github.com/capgate/capgate/internal/tenant"
	capgatepb "github.com/capgate/capgate/proto/capgate/v1"
)

// Daily returns the use of tenants' limits by day. Settings of nil mean a gateway without tenants.
type Daily interface {
	// Days returns the uses of the last days, in any order.
	Days(ctx context.Context, s *tenant.Settings, days int) ([]daily.Use, error)
	// Near returns the quotas of which most is used in their current period.
	Near(ctx context.Context, s *tenant.Settings) ([]daily.Use, error)
}

// ListDailyUsage implements capgatepb.UsageServer.
func (s *server) ListDailyUsage(ctx context.Context, req *capgatepb.ListDailyUsageRequest) (
	*capgatepb.ListDailyUsageResponse, error) {
	days := int(req.GetDays())
	if days < 0 || days > daily.Days {
		return nil, call.InvalidField("USAGE_INVALID", "days", "it must be from 1 to 30; 0 means 30")
	}
	if days == 0 {
		days = daily.Days
	}
	id, err := operator.Tenant(ctx, req.GetTenantId())
	if err == nil {
		err = s.tenants().Check(ctx, id)
	}
	if err != nil {
		return nil, refusalOf(err)
	}
	settings, err := s.settings(ctx, id)
	if err != nil {
		return nil, refusalOf(err)
	}
	uses, err := s.daily.Days(ctx, settings, days)
	if err != nil {
		return nil, refusalOf(err)
	}
	near, err := s.daily.Near(ctx, settings)
	if err != nil {
		return nil, refusalOf(err)
	}
	return &capgatepb.ListDailyUsageResponse{Days: daysOf(uses), Near: nearOf(near)}, nil
}

// settings returns the settings of an existing tenant, and nil for a gateway without tenants.
func (s *server) settings(ctx context.Context, id string) (*tenant.Settings, error) {
	tenants := s.tenants()
	if tenants == nil {
		return nil, nil
	}
	found, refusal := tenants.Directory.Settings(ctx, id)
	switch {
	case refusal != nil:
		return nil, refusal
	case found == nil:
		return nil, &call.Refusal{Kind: call.NotFound, Reason: "TENANT_UNKNOWN", Message: "the tenant does not exist"}
	}
	return found, nil
}

func daysOf(uses []daily.Use) (all []*capgatepb.DailyUse) {
	slices.SortFunc(uses, compare)
	for i := range uses {
		all = append(all, messageOf(&uses[i], daily.Date(uses[i].Day).Format(time.DateOnly)))
	}
	return all
}

func nearOf(uses []daily.Use) (all []*capgatepb.DailyUse) {
	slices.SortFunc(uses, compare)
	for i := range uses {
		all = append(all, messageOf(&uses[i], uses[i].Date()))
	}
	return all
}

// compare orders uses by day and limit.
func compare(a, b daily.Use) int {
	return cmp.Or(cmp.Compare(a.Day, b.Day), cmp.Compare(a.Per, b.Per), cmp.Compare(a.Capability, b.Capability),
		cmp.Compare(a.Tool, b.Tool), cmp.Compare(a.Limit, b.Limit))
}

func messageOf(u *daily.Use, date string) *capgatepb.DailyUse {
	return &capgatepb.DailyUse{Date: date, Limit: u.Limit.String(), Per: u.Per, Capability: u.Capability,
		Tool: u.Tool, Used: float64(u.Used), Max: float64(u.Most)}
}
