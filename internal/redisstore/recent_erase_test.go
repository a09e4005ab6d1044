package redisstore_test

import (
	"fmt"
	"testing"

	"github.com/capgate/capgate/internal/redisstore"
	"github.com/capgate/capgate/internal/telemetry"
	"github.com/capgate/capgate/internal/tenant/storetest"
	"github.com/capgate/capgate/internal/testkit/check"
)

// TestADeletedTenantLeavesNoRecentCalls: its calls and their counts are removed at all replicas, and those of others
// stay.
func TestADeletedTenantLeavesNoRecentCalls(t *testing.T) {
	onEveryRedis(t, func(t *testing.T, open func() *redisstore.Store) {
		s, ctx := open(), t.Context()
		a, b := newRecent(t, s, "a", 50), newRecent(t, open(), "b", 50)
		check.Must(t, s.Tenants().CreateTenant(ctx, storetest.Record("gone", "u1")))
		a.Record(ended("gone", "one", 0))
		b.Record(ended("gone", "two", 8))
		failed := ended("gone", "three", 0)
		failed.Outcome = telemetry.ToolError
		b.Record(failed)
		a.Record(ended("gone2", "four", 0))
		count := func(tenants ...string) (n int64) {
			minutes, partial := b.Minutes(ctx, tenants)
			for _, m := range minutes {
				n += m.Calls + m.Refusals + m.Errors + m.Asked + m.ToolErrors
			}
			if partial {
				return -1
			}
			return n
		}
		check.Until(t, "four calls", func() (bool, string) {
			calls, partial := b.Calls(ctx)
			return len(calls) == 4 && !partial && count("gone") == 5 && count("gone2") == 1, fmt.Sprint(calls, partial)
		})

		check.Must(t, s.Tenants().DeleteTenant(ctx, "gone", 0, false))
		if calls, partial := b.Calls(ctx); len(calls) != 1 || calls[0].Tenant != "gone2" || partial {
			t.Errorf("left: %+v, %t", calls, partial)
		}
		if of, others := count("gone"), count("gone2"); of != 0 || others != 1 {
			t.Errorf("counts: %d, of others %d", of, others)
		}
		a.Record(ended("gone2", "five", 0))
		check.Until(t, "a further call", func() (bool, string) {
			calls, partial := b.Calls(ctx)
			return len(calls) == 2 && !partial, fmt.Sprint(calls, partial)
		})

	})
}
