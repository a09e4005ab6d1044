package daily

import (
	"context"
	"fmt"
	"time"

	"github.com/capgate/capgate/internal/call"
	"github.com/capgate/capgate/internal/ratelimit"
)

const (
	// Days is the number of days that are kept, the current one included.
	Days = 30
	// MaxLimits bounds the limits of one record. A tenant has fewer; further ones are those of former configurations.
	MaxLimits = 256
	// MaxNear bounds the tenants that are known to be near a limit.
	MaxNear = 10_000
	// NearTenth is the number of tenths of a quota from which on its use is near the limit.
	NearTenth = 8
)

// Use is the use of one limit on one day.
type Use struct {
	Limit      call.Limit
	Per        string // as in tenant.Limit
	Capability string
	Tool       string
	Day        int64 // number of the day since 1970, UTC
	Period     int64 // number of the day or month for which a quota counts; 0 for other limits
	Used, Most int64
}

// useOf returns a peak as a Use.
func useOf(p *ratelimit.Peak) Use {
	return Use{Limit: p.Limit, Per: p.Name.Per, Capability: p.Name.Capability, Tool: p.Name.Tool, Day: p.Day,
		Period: p.Period(), Used: p.Used, Most: p.Most}
}

// Near reports whether most of a quota is used: 80%.
func (u *Use) Near() bool { return u.Period > 0 && u.Most > 0 && u.Used*10 >= u.Most*NearTenth }

// limit identifies the limit of a Use.
type limit struct {
	limit                 call.Limit
	per, capability, tool string
}

func (u *Use) of() limit { return limit{u.Limit, u.Per, u.Capability, u.Tool} }

// Store is shared by replicas. Its errors mean that it does not respond.
type Store interface {
	// Raise records uses of a tenant. A record keeps the greatest use of a limit on a day, and the latest Most. A day
	// has at most MaxLimits of them. Raise returns the indexes of those uses that are near their limit for the first
	// time in their period, or with a greater Most than before.
	Raise(ctx context.Context, of ratelimit.Owner, uses []Use) (first []int, err error)
	// Uses returns the uses of a tenant from one day to another, the oldest first.
	Uses(ctx context.Context, of ratelimit.Owner, from, to int64) ([]Use, error)
	// NearUses returns the greatest uses of a tenant's quotas that have been near their limit, also of former periods.
	NearUses(ctx context.Context, of ratelimit.Owner) ([]Use, error)
	// NearTenants returns at most most tenants, after the first skip ones, with quotas that have been near their limit
	// in a period that has not ended, and the number of all. It looks at the named tenants; nil means all, of which at
	// most MaxNear are known.
	NearTenants(ctx context.Context, named []string, skip, most int) (ids []string, all int, err error)
	// ForgetNear removes tenants from those of NearTenants, until they are near a limit again.
	ForgetNear(ctx context.Context, ids []string) error
}

// day returns the number of a time's day.
func day(at time.Time) int64 { return at.Unix() / int64(24*time.Hour/time.Second) }

// Month returns the number of the month of a day.
func Month(day int64) int64 {
	at := Date(day)
	return int64(at.Year())*12 + int64(at.Month())
}

// Date returns the beginning of a day.
func Date(day int64) time.Time { return time.Unix(day*int64(24*time.Hour/time.Second), 0).UTC() }

// Ends returns the end of the period of a quota.
func (u *Use) Ends() time.Time {
	at := Date(u.Day)
	if u.Limit == call.PerMonth {
		return time.Date(at.Year(), at.Month()+1, 1, 0, 0, 0, 0, time.UTC)
	}
	return at.AddDate(0, 0, 1)
}

// Date returns the period of a quota, such as 2026-11-29 or 2026-11.
func (u *Use) Date() string {
	if u.Limit == call.PerMonth {
		return fmt.Sprintf("%04d-%02d", (u.Period-1)/12, (u.Period-1)%12+1)
	}
	return Date(u.Period).Format(time.DateOnly)
}
