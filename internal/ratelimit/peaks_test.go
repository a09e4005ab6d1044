package ratelimit_test

import (
	"testing"
	"time"

	"github.com/capgate/capgate/internal/call"
	"github.com/capgate/capgate/internal/ratelimit"
	"github.com/capgate/capgate/internal/tenant"
)

// TestPeaksAreTheGreatestUse: each limit has the greatest use since the last look, and quotas that of the store.
func TestPeaksAreTheGreatestUse(t *testing.T) {
	alone(t, func(t *testing.T, l *ratelimit.Limiter, _ *model) {
		s := settings(tenant.Bounds{CallsPerSecond: 50, Concurrent: 9, PerDay: 1000, PerMonth: 5000})
		peaks := func() map[call.Limit]ratelimit.Peak {
			all := map[call.Limit]ratelimit.Peak{}
			l.Peaks(func(of ratelimit.Owner, peaks []ratelimit.Peak) {
				for _, p := range peaks {
					all[p.Limit] = p
				}
			})
			return all
		}
		if ok, _ := made(l, s, call.Call{}, 6); ok != 6 {
			t.Fatalf("%d calls were admitted", ok)
		}
		pass(3 * time.Second)
		got := peaks()
		for limit, want := range map[call.Limit][2]int64{call.CallsPerSecond: {6, 50}, call.PerDay: {6, 1000},
			call.PerMonth: {6, 5000}} {
			p := got[limit]
			if p.Used < want[0] || p.Used > want[0]+16 || p.Most != want[1] || p.Day == 0 {
				t.Errorf("%v: %+v", limit, p)
			}
		}
		if p := got[call.Concurrent]; p.Used < 1 || p.Used > 9 || p.Most != 9 {
			t.Errorf("concurrent: %+v", p)
		}
		if p := got[call.PerMonth]; p.Period() != p.Month || p.Month == 0 || got[call.CallsPerSecond].Month != 0 {
			t.Errorf("periods: %+v", got)
		}
		pass(2 * time.Second)
		if again := peaks(); again[call.CallsPerSecond].Used != 0 || again[call.PerDay].Used < 6 {
			t.Errorf("without calls: %+v", again)
		}
	})
}

// TestPeakOfValues: a limit per user has the use of the busiest user.
func TestPeakOfValues(t *testing.T) {
	alone(t, func(t *testing.T, l *ratelimit.Limiter, _ *model) {
		s := settings(tenant.Bounds{})
		s.Limits.Each = []tenant.Limit{{Per: "user", Bounds: tenant.Bounds{PerDay: 100}}}
		for user, calls := range map[string]int{"ann": 2, "bob": 9} {
			if ok, _ := made(l, s, call.Call{User: user}, calls); ok != calls {
				t.Errorf("%d calls of %s", ok, user)
			}
		}
		pass(3 * time.Second)
		l.Peaks(func(_ ratelimit.Owner, peaks []ratelimit.Peak) {
			// One more may be leased.
			if p := &peaks[0]; len(peaks) != 1 || p.Used < 9 || p.Used > 10 || p.Name != (ratelimit.Name{Per: "user"}) {
				t.Errorf("%+v", peaks)
			}
		})
	})
}
