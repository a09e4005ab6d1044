package router_test

import (
	"testing"
	"time"

	"github.com/capgate/capgate/router"
)

func TestRetryBudget(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		retries     router.Retries
		perSecond   int // calls, and as many wishes to retry
		seconds     int
		least, most int // retries per 1,000 calls in the last half of the time
	}{
		"a tenth of many calls":   {router.Retries{}, 10_000, 60, 95, 110},
		"the floor for few":       {router.Retries{}, 5, 60, 1000, 1000},
		"the floor and the tenth": {router.Retries{}, 100, 60, 180, 220},
		"none":                    {router.Retries{Share: -1, Floor: -1}, 100, 60, 0, 0},
		"no floor":                {router.Retries{Share: 0.5, Floor: -1}, 100, 60, 450, 550},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newTestFleet(t, router.FleetConfig{Backends: named(2), Retries: test.retries}, "")
			retries, calls := 0, 0
			for second := range test.seconds {
				for range test.perSecond {
					w.now += time.Second / time.Duration(test.perSecond)
					w.call(func(string) router.Outcome { return router.Outcome{} })
					allowed := w.fleet.AllowRetry()
					if second >= test.seconds/2 {
						calls++
						if allowed {
							retries++
						}
					}
				}
			}
			if got := retries * 1000 / calls; got < test.least || got > test.most {
				t.Errorf("%d retries of 1,000 calls, want %d to %d", got, test.least, test.most)
			}
			if s := w.fleet.Stats(); s.Retries+s.RetriesDenied != int64(test.perSecond*test.seconds) {
				t.Errorf("%+v", s)
			}
		})
	}
}

// Unused retries accumulate for about the window only, but a burst is allowed that the traffic of some seconds earns.
func TestRetryBudgetAllowsABurst(t *testing.T) {
	t.Parallel()
	w := newTestFleet(t, router.FleetConfig{Backends: named(2)}, "")
	for range 100_000 { // 1,000 a second
		w.now += time.Millisecond
		w.call(func(string) router.Outcome { return router.Outcome{} })
	}
	const endless = 10_000
	burst := 0
	for burst < endless && w.fleet.AllowRetry() {
		burst++
	}
	if burst < 900 || burst > 1200 {
		t.Errorf("a burst of %d after 1,000 calls a second", burst)
	}
	w.now += time.Hour
	burst = 0
	for burst < endless && w.fleet.AllowRetry() {
		burst++
	}
	if burst != 100 {
		t.Errorf("a burst of %d after an hour without calls", burst)
	}
}
