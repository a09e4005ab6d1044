package ratelimit_test

import (
	"testing"
	"time"

	"github.com/capgate/capgate/internal/call"
	"github.com/capgate/capgate/internal/ratelimit"
	"github.com/capgate/capgate/internal/tenant"
	"github.com/capgate/capgate/internal/testkit/check"
)

// TestSettingsFindTheirState: settings lead to the state that the Limiter has now, and not to that of another Limiter,
// to one that was removed, or to earlier limits.
func TestSettingsFindTheirState(t *testing.T) {
	t.Parallel()
	check.Bubble(t, func(t *testing.T) {
		s := &tenant.Settings{ID: "acme", Limits: tenant.Limits{Bounds: tenant.Bounds{Concurrent: 10}}}
		more := &tenant.Settings{ID: "acme", Limits: tenant.Limits{Bounds: tenant.Bounds{Concurrent: 20}}}
		a, b := ratelimit.New(ratelimit.Config{Store: plenty{}}), ratelimit.New(ratelimit.Config{Store: plenty{}})
		stopA, stopB := run(a), run(b)
		defer stopA()
		defer stopB()
		begin := func(l *ratelimit.Limiter, s *tenant.Settings) (end func()) {
			p := &ratelimit.Permit{}
			if refusal := try(l, s, call.Call{}, p); refusal != nil {
				t.Error(refusal)
			}
			return func() { l.Release(0, p) }
		}
		expect := func(what string, l *ratelimit.Limiter, s *tenant.Settings, used float64, most int64) {
			t.Helper()
			u, err := l.UsageOf(t.Context(), s)
			check.Must(t, err)
			if got := u.Limits[0]; got.Used != used || got.Most != most {
				t.Errorf("%s: %v of %d, want %v of %d", what, got.Used, got.Most, used, most)
			}
		}
		first, other, second := begin(a, s), begin(b, s), begin(a, s)
		expect("a Limiter", a, s, 2, 10)
		expect("another one", b, s, 1, 10)
		third := begin(a, more)
		expect("other limits", a, more, 3, 20)
		fourth := begin(a, s)
		expect("earlier limits again", a, s, 4, 10)
		for _, end := range []func(){first, second, third, fourth, other} {
			end()
		}
		pass(5 * time.Minute) // it is removed
		last := begin(a, s)
		expect("after a pause", a, s, 1, 10)
		last()
	})
}
