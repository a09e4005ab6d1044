package ratelimit_test

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/capgate/capgate/internal/call"
	"github.com/capgate/capgate/internal/ratelimit"
	"github.com/capgate/capgate/internal/tenant"
	"github.com/capgate/capgate/internal/testkit/check"
)

// TestUsageCountsCallsOfTheLastSecond: calls a microsecond apart are not shown as millions a second, and calls that
// have been rejected are not counted.
func TestUsageCountsCallsOfTheLastSecond(t *testing.T) {
	alone(t, func(t *testing.T, l *ratelimit.Limiter, _ *model) {
		s := settings(tenant.Bounds{CallsPerSecond: 8, Burst: 8})
		if ok, _ := made(l, s, call.Call{}, 12); ok != 8 {
			t.Fatalf("%d calls were admitted", ok)
		}
		for _, step := range []struct {
			after time.Duration
			least float64
			most  float64
		}{{0, 8, 8}, {200 * time.Millisecond, 8, 8}, {1500 * time.Millisecond, 0, 7}, {2 * time.Second, 0, 0}} {
			pass(step.after)
			u, err := l.UsageOf(t.Context(), s)
			check.Must(t, err)
			if got := u.Limits[0]; got.Used < step.least || got.Used > step.most || got.Most != 8 || got.Burst != 8 {
				t.Errorf("%v later: %+v", step.after, got)
			}
		}
	})
}

// spentOf has the budgets of a store, by the tool of a limit.
type spentOf map[string]ratelimit.Spent

func (s spentOf) Spent(_ context.Context, of ratelimit.Owner, names []ratelimit.Name) (all []ratelimit.Spent,
	err error) {
	for _, n := range names {
		if of.ID != "acme" || n.Per != "" {
			return nil, fmt.Errorf("%v %v is not stored", of, n)
		}
		all = append(all, s[n.Tool])
	}
	return all, nil
}

// TestUsageOfIdleTenants: a tenant that has not called the replica has all its limits, with the budgets of the store.
func TestUsageOfIdleTenants(t *testing.T) {
	t.Parallel()
	store := spentOf{"": {Day: 7}, "send": {Day: 3, Month: 4}}
	l := ratelimit.New(ratelimit.Config{Store: plenty{}, Budgets: store})
	u, err := l.UsageOf(t.Context(), &tenant.Settings{ID: "acme", Limits: tenant.Limits{
		Bounds: tenant.Bounds{CallsPerSecond: 8, PerDay: 100},
		Each: []tenant.Limit{{Per: "user", Bounds: tenant.Bounds{PerDay: 10, Concurrent: 2}},
			{Tool: "send", Bounds: tenant.Bounds{PerDay: 5, PerMonth: 50}}},
	}})
	check.Must(t, err)
	got := ""
	for _, l := range u.Limits {
		got += fmt.Sprintf("%s%s %v %.0f/%d; ", l.Name.Per, l.Name.Tool, l.Limit, l.Used, l.Most)
	}
	if want := " calls_per_second 0/8;  per_day 7/100; user concurrent 0/2; user per_day 0/10; send per_day 3/5; " +
		"send per_month 4/50; "; got != want {
		t.Errorf("%s\nwant %s", got, want)
	}
	if u, err = l.UsageOf(t.Context(), &tenant.Settings{ID: "globex"}); err != nil || len(u.Limits) > 0 {
		t.Errorf("without limits: %+v, %v", u, err)
	}
}
