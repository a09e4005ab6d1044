package router_test

import (
	"testing"

	"github.com/capgate/capgate/health"
	"github.com/capgate/capgate/internal/call"
	"github.com/capgate/capgate/router"
)

// join makes backends those of the fleet.
func (w *world) join(backends ...router.BackendConfig) {
	w.t.Helper()
	w.router.Swap(newTable(w.t, router.Config{Fleets: []router.FleetConfig{{Capability: "weather", Backends: backends, SlowStart: -1}}}, w.router.Table()))
	w.fleet = w.router.Table().Fleet("weather")
}

// Who joins has calls when its dialect is known, unless there is nobody else who surely
// can take them.
func TestWhoJoinsIsProbedFirst(t *testing.T) {
	t.Parallel()
	unknown := health.Backend{}
	for name, test := range map[string]struct {
		before  []health.Backend // of those that were there
		joins   router.BackendConfig
		probed  *health.Backend // of the one that joins
		waits   bool
		silence bool // and then nothing is known of it any more
	}{
		"beside a healthy one":               {before: []health.Backend{up, up}, waits: true},
		"beside one healthy and one down":    {before: []health.Backend{up, down}, waits: true},
		"beside those of which nobody knows": {before: []health.Backend{unknown, unknown}},
		"beside the dead":                    {before: []health.Backend{refused, refused}},
		"its dialect is configured":          {before: []health.Backend{up, up}, joins: router.BackendConfig{Dialect: call.Live}},
		"once it is up":                      {before: []health.Backend{up, up}, probed: &up},
		"up, with no dialect of its own":     {before: []health.Backend{up, up}, probed: &health.Backend{State: health.Up, Reason: "grpc.health.v1"}},
		"up, and not heard of since":         {before: []health.Backend{up, up}, probed: &up, silence: true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t, router.FleetConfig{Backends: named(2), SlowStart: -1}, "")
			w.health(test.before...)
			test.joins.Addr = "joins:1"
			w.join(append(named(2), test.joins)...)
			if test.probed != nil {
				w.health(append(test.before, *test.probed)...)
			}
			if test.silence {
				w.health(append(test.before, unknown)...)
			}
			if got := w.shares(1000)["joins:1"]; (got == 0) != test.waits {
				t.Errorf("it has %.3f of the calls", got)
			}
			if w.health(append(test.before, up)...); w.shares(1000)["joins:1"] == 0 {
				t.Error("it is up, and has no calls")
			}
		})
	}
}
