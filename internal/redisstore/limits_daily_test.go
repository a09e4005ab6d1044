package redisstore_test

import (
	"testing"

	"github.com/capgate/capgate/internal/call"
	"github.com/capgate/capgate/internal/ratelimit"
	"github.com/capgate/capgate/internal/ratelimit/daily"
	"github.com/capgate/capgate/internal/ratelimit/daily/storetest"
	"github.com/capgate/capgate/internal/redisstore"
	tenanttest "github.com/capgate/capgate/internal/tenant/storetest"
	"github.com/capgate/capgate/internal/testkit/check"
)

// TestDailyUses: replicas share the use of limits by day.
func TestDailyUses(t *testing.T) {
	runContract(t, storetest.Suite(), func(s *redisstore.Store) daily.Store { return s.DailyUses() })
}

// TestANoticeWaitsForTheListOfTenants: where the list of the tenants near a limit cannot be written, the notice is
// given later.
func TestANoticeWaitsForTheListOfTenants(t *testing.T) {
	t.Parallel()
	url, raw := startRaw(t)
	uses, of := open(t, redisstore.Config{URL: url}).DailyUses(), ratelimit.Owner{ID: "acme", UID: "u1"}
	near := []daily.Use{{Limit: call.PerDay, Day: 20000, Period: 20000, Used: 9, Most: 10}}
	check.Must(t, raw.Set(t.Context(), "cg:{limits}:near", "no set", 0).Err())
	if first, err := uses.Raise(t.Context(), of, near); err == nil || len(first) > 0 {
		t.Fatalf("%v, %v", first, err)
	}
	check.Must(t, raw.Del(t.Context(), "cg:{limits}:near").Err())
	if first, err := uses.Raise(t.Context(), of, near); len(first) != 1 || err != nil {
		t.Errorf("the notice is lost: %v, %v", first, err)
	}
}

// TestDailyUsesEndWithTheTenant: a deleted tenant leaves no record.
func TestDailyUsesEndWithTheTenant(t *testing.T) {
	onEveryRedis(t, func(t *testing.T, open func() *redisstore.Store) {
		s, ctx := open(), t.Context()
		check.Must(t, s.Tenants().CreateTenant(ctx, tenanttest.Record("acme", "u1")))
		_, err := s.DailyUses().Raise(ctx, ratelimit.Owner{ID: "acme", UID: "u1"},
			[]daily.Use{{Limit: call.PerDay, Day: 20000, Period: 20000, Used: 9, Most: 10}})
		check.Must(t, err)
		if left := under(t, s, "acme"); len(left) < 3 {
			t.Fatalf("before: %q", left)
		}
		check.Must(t, s.Tenants().DeleteTenant(ctx, "acme", 0, false))
		if left := under(t, s, "acme"); len(left) > 0 {
			t.Errorf("left: %q", left)
		}
	})
}

// TestCostOfDailyUses measures what docs/run/sizing.md says: the bytes of a tenant with five limits over 30 days.
func TestCostOfDailyUses(t *testing.T) {
	t.Parallel()
	url, raw := startRaw(t)
	s := open(t, redisstore.Config{URL: url})
	const tenants = 20
	for i := range tenants {
		of := ratelimit.Owner{ID: string(rune('a' + i)), UID: "0123456789abcdef"}
		for day := int64(20000); day < 20000+daily.Days; day++ {
			var uses []daily.Use
			for _, l := range []call.Limit{call.CallsPerSecond, call.Concurrent, call.PerDay, call.PerMonth} {
				uses = append(uses, daily.Use{Limit: l, Day: day, Used: 123456, Most: 1000000})
			}
			uses = append(uses, daily.Use{Limit: call.PerDay, Per: "user", Day: day, Used: 999, Most: 1000})
			_, err := s.DailyUses().Raise(t.Context(), of, uses)
			check.Must(t, err)
		}
	}
	got := bytesOfKeys(t, raw) / tenants
	if t.Logf("%d bytes for a tenant", got); got > 8<<10 {
		t.Errorf("%d bytes for a tenant, and the page says up to 8 KiB", got)
	}
}
