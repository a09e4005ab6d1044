package router_test

import (
	"math"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/capgate/capgate/health"
	"github.com/capgate/capgate/router"
)

func TestWeights(t *testing.T) {
	t.Parallel()
	weighted := func(weights ...int) []router.BackendConfig {
		backends := named(len(weights))
		for i := range backends {
			backends[i].Weight = weights[i]
		}
		return backends
	}
	for name, test := range map[string]struct {
		backends []router.BackendConfig
		want     []float64
	}{
		"equal":                  {weighted(0, 0, 0, 0), []float64{.25, .25, .25, .25}},
		"the default is 100":     {weighted(0, 100), []float64{.5, .5}},
		"a canary":               {weighted(95, 5), []float64{.95, .05}},
		"a canary beside five":   {weighted(19, 19, 19, 19, 19, 5), []float64{.19, .19, .19, .19, .19, .05}},
		"all different":          {weighted(10, 20, 30, 40), []float64{.1, .2, .3, .4}},
		"no new calls":           {weighted(-1, 0, 0), []float64{0, .5, .5}},
		"one is left":            {weighted(-1, 7), []float64{0, 1}},
		"very different":         {weighted(1, 9999), []float64{.0001, .9999}},
		"two groups of the same": {weighted(30, 20, 30, 20), []float64{.3, .2, .3, .2}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newTestFleet(t, router.FleetConfig{Backends: test.backends}, "")
			got := w.shares(40_000)
			for i, want := range test.want {
				if addr := test.backends[i].Addr; !near(got[addr], want, .015) {
					t.Errorf("%s has %.3f of the calls, want %.3f", addr, got[addr], want)
				}
			}
		})
	}
}

func TestAllWeightsZero(t *testing.T) {
	t.Parallel()
	w := newTestFleet(t, router.FleetConfig{Backends: []router.BackendConfig{{Addr: "a:1", Weight: -1}}}, "")
	if _, _, refusal := w.fleet.Route(nil); refusal == nil || refusal.Reason != "NO_BACKEND" {
		t.Errorf("%+v", refusal)
	}
}

// Weights hold for concurrent calls, too, but a backend that hangs does not attract calls.
func TestAWeightIsNoDuty(t *testing.T) {
	t.Parallel()
	w := newTestFleet(t, router.FleetConfig{
		Backends: []router.BackendConfig{{Addr: "stuck:1", Weight: 50}, {Addr: "fine:1", Weight: 51}},
	}, "")
	stuck := 0
	for range 10_000 {
		b, claim, _ := w.fleet.Route(nil)
		if b.Addr == "stuck:1" {
			stuck++
			continue
		}
		claim.Done(router.Outcome{Class: router.Succeeded})
	}
	if stuck > 50 {
		t.Errorf("%d calls queue up at a backend that answers none", stuck)
	}
}

func TestZones(t *testing.T) {
	t.Parallel()
	backends := named(6)
	for i := range backends {
		backends[i].Zone = []string{"here", "there"}[i/4] // four here, two there
	}
	for name, test := range map[string]struct {
		zone   string
		states []health.Backend
		here   float64
	}{
		"no zone":                   {"", nil, 4. / 6},
		"calls stay":                {"here", nil, 1},
		"one of four gone":          {"here", []health.Backend{refused, up, up, up, up, up}, 1},
		"half of them gone":         {"here", []health.Backend{refused, refused, up, up, up, up}, .7},
		"three of four gone":        {"here", []health.Backend{refused, refused, refused, up, up, up}, .35},
		"all gone":                  {"here", []health.Backend{refused, refused, refused, refused, up, up}, 0},
		"a zone of others":          {"there", nil, 0},
		"all others gone":           {"there", []health.Backend{up, up, up, up, refused, refused}, 1},
		"a zone where nobody is":    {"elsewhere", nil, 4. / 6},
		"only here is left, partly": {"here", []health.Backend{refused, up, up, up, refused, refused}, 1},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newTestFleet(t, router.FleetConfig{Backends: backends, SlowStart: -1}, test.zone)
			if test.states != nil {
				w.health(append([]health.Backend(nil), test.states...)...)
			}
			got := w.shares(20_000)
			if here := got["a0:1"] + got["a1:1"] + got["a2:1"] + got["a3:1"]; !near(here, test.here, .02) {
				t.Errorf("%.3f of the calls stay here, want %.3f", here, test.here)
			}
		})
	}
}

// An overloaded zone spills over.
func TestABusyZoneSpills(t *testing.T) {
	t.Parallel()
	w := newTestFleet(t, router.FleetConfig{
		Backends: []router.BackendConfig{{Addr: "here:1", Zone: "z"}, {Addr: "there:1"}, {Addr: "there:2"}},
	}, "z")
	for range 300 {
		if _, _, refusal := w.fleet.Route(nil); refusal != nil { // a call that does not end
			t.Fatal(refusal)
		}
	}
	here := w.fleet.Backends[0].InFlight()
	if here < 100 || here > 250 {
		t.Errorf("%d of 300 calls stay in a zone with a third of the backends", here)
	}
}

// simulate runs a closed loop of workers over simulated backends, each with its latency, and returns the backends'
// shares of the calls.
func (w *testFleet) simulate(workers int, length time.Duration,
	latency func(addr string) time.Duration) map[string]float64 {
	w.t.Helper()
	type open struct {
		at    time.Duration
		took  time.Duration
		claim router.Permit
	}
	running := make([]open, workers)
	counts, total := map[string]float64{}, 0.
	for end := w.now + length; w.now < end; {
		next := 0
		for i := range running {
			if running[i].at < running[next].at {
				next = i
			}
		}
		call := &running[next]
		if call.claim != (router.Permit{}) {
			w.now = call.at
			call.claim.Done(router.Outcome{Class: router.Succeeded, Latency: call.took})
		}
		b, claim, refusal := w.fleet.Route(nil)
		if refusal != nil {
			w.t.Fatal(refusal)
		}
		took := latency(b.Addr)
		*call = open{at: w.now + took, took: took, claim: claim}
		counts[b.Addr]++
		total++
	}
	for _, call := range running {
		call.claim.Done(router.Outcome{})
	}
	for addr := range counts {
		counts[addr] /= total
	}
	return counts
}

func TestTheFastGetsMore(t *testing.T) {
	t.Parallel()
	slow := "a0:1"
	for name, test := range map[string]struct {
		backends, workers int
		latency           time.Duration // of a0; the others' is 20 ms
		least, most       float64
	}{
		"as fast as the other":           {2, 10, 20 * time.Millisecond, .4, .6},
		"half as fast":                   {2, 10, 40 * time.Millisecond, .1, .4},
		"ten times slower":               {2, 10, 200 * time.Millisecond, .0005, .1},
		"ten times slower, one caller":   {2, 1, 200 * time.Millisecond, .0005, .05},
		"ten times slower, one of ten":   {10, 50, 200 * time.Millisecond, .0005, .03},
		"ten times faster, one of ten":   {10, 50, 2 * time.Millisecond, .15, .8},
		"a hundred times slower":         {10, 50, 2 * time.Second, .00001, .01},
		"differences that are too small": {10, 50, 20*time.Millisecond + 100*time.Microsecond, .07, .13},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newTestFleet(t, router.FleetConfig{Backends: named(test.backends)}, "")
			got := w.simulate(test.workers, time.Minute, func(addr string) time.Duration {
				if addr == slow {
					return test.latency
				}
				return 20 * time.Millisecond
			})
			if got[slow] < test.least || got[slow] > test.most {
				t.Errorf("it has %.4f of the calls, want %.4f to %.4f", got[slow], test.least, test.most)
			}
		})
	}
}

// A backend that was slow for a while gets its share again.
func TestSlownessIsForgotten(t *testing.T) {
	t.Parallel()
	w := newTestFleet(t, router.FleetConfig{Backends: named(4)}, "")
	until := 20 * time.Second
	latency := func(addr string) time.Duration {
		if addr == "a0:1" && w.now < until {
			return 500 * time.Millisecond
		}
		return 20 * time.Millisecond
	}
	if got := w.simulate(20, 20*time.Second, latency)["a0:1"]; got > .05 {
		t.Errorf("while it is slow it has %.3f of the calls", got)
	}
	w.simulate(20, time.Minute, latency)
	if got := w.simulate(20, 20*time.Second, latency)["a0:1"]; !near(got, .25, .06) {
		t.Errorf("a minute later it has %.3f of the calls, want a quarter", got)
	}
}

func TestSlowStart(t *testing.T) {
	t.Parallel()
	for name, back := range map[string]func(*testFleet){
		"from an ejection": func(w *testFleet) {
			w.hit("a0:1", router.Outcome{Class: router.Unreachable})
			w.now += 10 * time.Second
		},
		"from being down": func(w *testFleet) {
			w.health(refused, up, up, up)
			w.now += 10 * time.Second
			w.health(up, up, up, up)
		},
		"as a new one": func(w *testFleet) {
			for _, backends := range [][]router.BackendConfig{named(4)[1:], named(4)} {
				next := newTable(w.t, router.Config{
					Fleets: []router.FleetConfig{{Capability: "weather", Backends: backends}},
				}, w.router.Table())
				w.router.Swap(next)
			}
			w.fleet = w.router.Table().Fleet("weather")
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newTestFleet(t, router.FleetConfig{Backends: named(4)}, "")
			back(w)
			last := 0.
			for part, most := range []float64{.15, .2, .3, .5} { // of its share, at 0, 1/8, 2/8 … of 30 s
				got := w.shares(20_000)["a0:1"]
				if got > most || got < last-.02 || got == 0 {
					t.Errorf("after %d/8 of its start it has %.3f of the calls, before %.3f", part, got, last)
				}
				last = got
				w.now += 30 * time.Second / 8
			}
			w.now += 30 * time.Second
			if got := w.shares(20_000)["a0:1"]; !near(got, .25, .02) {
				t.Errorf("afterwards it has %.3f of the calls", got)
			}
		})
	}
}

// At the start of the process no backend has a slow start, as all are new.
func TestNoSlowStartAtTheStart(t *testing.T) {
	t.Parallel()
	w := newTestFleet(t, router.FleetConfig{Backends: named(2)}, "")
	w.health(up, health.Backend{})
	if got := w.shares(10_000)["a0:1"]; !near(got, .5, .03) {
		t.Errorf("%.3f of the calls", got)
	}
}

// noisy returns latencies of equal backends: about 1 ms, and ten times that in one of a hundred calls.
func noisy(seed uint64) func(string) time.Duration {
	r := rand.New(rand.NewPCG(seed, 1))
	return func(string) time.Duration {
		took := math.Exp(r.NormFloat64()/2) * float64(time.Millisecond)
		if r.IntN(100) == 0 {
			took *= 10
		}
		return time.Duration(took)
	}
}

// Equal backends have about equal shares, also without concurrency.
func TestEqualBackendsOneCallAtATime(t *testing.T) {
	t.Parallel()
	const backends, seeds = 5, 40
	sum := 0.
	for seed := range uint64(seeds) {
		w := newTestFleet(t, router.FleetConfig{Backends: named(backends)}, "")
		w.simulate(1, time.Second, noisy(seed))
		got := w.simulate(1, 3*time.Second, noisy(seed+1000)) // about 2,000 calls
		squares := 0.
		for _, b := range w.fleet.Backends {
			share := got[b.Addr]
			if share < .02 {
				t.Errorf("seed %d: %s has %.3f of the calls, want about a fifth", seed, b.Addr, share)
			}
			squares += (share - 1./backends) * (share - 1./backends)
		}
		sum += math.Sqrt(squares/backends) * backends
	}
	t.Logf("the coefficient of variation is %.3f on average", sum/seeds)
	if sum/seeds > .25 {
		t.Errorf("the coefficient of variation is %.3f on average", sum/seeds)
	}
}

// A backend that has recovered from being very slow has its share half a minute later, at any load.
func TestARecoveredBackendIsTriedAgain(t *testing.T) {
	t.Parallel()
	for _, workers := range []int{1, 20} {
		w := newTestFleet(t, router.FleetConfig{Backends: named(5)}, "")
		noise, until := noisy(7), 30*time.Second
		latency := func(addr string) time.Duration {
			if addr == "a0:1" && w.now < until {
				return 2 * time.Second
			}
			return noise(addr)
		}
		if got := w.simulate(workers, until, latency)["a0:1"]; got > .01 {
			t.Errorf("%d callers: while it is slow it has %.4f of the calls", workers, got)
		}
		w.simulate(workers, 30*time.Second, latency)
		if got := w.simulate(workers, 10*time.Second, latency)["a0:1"]; !near(got, .2, .08) {
			t.Errorf("%d callers: half a minute later it has %.3f of the calls, want a fifth", workers, got)
		}
	}
}
