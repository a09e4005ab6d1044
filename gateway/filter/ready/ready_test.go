package ready_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/capgate/capgate/gateway/filter"
	"github.com/capgate/capgate/gateway/filter/ready"
	"github.com/capgate/capgate/gateway/relay"
	"github.com/capgate/capgate/health"
	"github.com/capgate/capgate/internal/lib/fairshare"
	"github.com/capgate/capgate/internal/testkit/check"
	"github.com/capgate/capgate/internal/testkit/filtertest"
	"github.com/capgate/capgate/router"
)

// filteredFleet is a fleet with one backend, and a filter for it.
type filteredFleet struct {
	*router.Router
	filter *ready.Filter
	memory *fairshare.Pool
	asked  int // number of early probes that were requested
}

func newFilteredFleet(t testing.TB, cfg router.FleetConfig) *filteredFleet {
	t.Helper()
	cfg.Capability = "weather"
	if cfg.Backends == nil {
		cfg.Backends = router.Addrs("a:1")
	}
	table, err := router.NewTable(router.Config{Fleets: []router.FleetConfig{cfg}}, nil)
	check.Must(t, err)
	w := &filteredFleet{Router: router.New(table), memory: fairshare.New("memory", 1<<20)}
	w.filter = ready.New(func(string) { w.asked++ }, w.memory)
	return w
}

func (w *filteredFleet) set(b health.Backend) {
	b.Addr = "a:1"
	w.SetHealth(health.NewSnapshot("weather", []health.Backend{b}))
}

// call returns a call that has reached the filter.
func (w *filteredFleet) call() (*filter.Call, *filtertest.Stream) {
	c, stream := filtertest.NewCall()
	c.Fleet = w.Table().Fleet("weather")
	return c, stream
}

var done = &filter.Result{Result: &relay.Result{}, Final: true}

var (
	up      = health.Backend{State: health.Up, Since: time.Unix(1, 0)}
	refused = health.Backend{State: health.Down, Refused: true, Since: time.Unix(1, 0)}
)

// TestStates: a call waits if the only backend is not running, or was never probed.
func TestStates(t *testing.T) {
	t.Parallel()
	never := health.Backend{}
	for name, test := range map[string]struct {
		health health.Backend
		wait   time.Duration
		waits  bool
	}{
		"up":                       {up, time.Second, false},
		"refused":                  {refused, time.Second, true},
		"refused, without a wait":  {refused, 0, false},
		"never probed":             {never, time.Second, true},
		"without news":             {health.Backend{Since: time.Unix(1, 0)}, time.Second, false},
		"not ready: panic routing": {health.Backend{State: health.Down, Reason: "loading"}, time.Second, false},
		"its name does not exist": {health.Backend{
			State: health.Down, Reason: "no connection: the host name does not exist",
		}, time.Second, true},
	} {
		check.Bubble(t, func(t *testing.T) {
			w := newFilteredFleet(t, router.FleetConfig{WaitForReady: test.wait})
			w.set(test.health)
			c, stream := w.call()
			var s ready.State
			if step := w.filter.Admit(c, &s); step == filter.Wait != test.waits || stream.Waits() != test.waits ||
				w.asked > 0 != test.waits {
				t.Errorf("%s: step %d, %d demands", name, step, w.asked)
			}
			w.filter.Done(c, &s, done)
			if w.memory.Used() != 0 {
				t.Errorf("%s: %d bytes are held", name, w.memory.Used())
			}
		})
	}
}

// TestWaits: a wait ends with a successful probe, with another backend, after the configured time, or with its call. A
// call waits once.
func TestWaits(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		event func(*testing.T, *filteredFleet)
		takes time.Duration
		ready bool
	}{
		"a good probe": {func(_ *testing.T, w *filteredFleet) { w.set(up) }, 0, true},
		"a bad probe": {func(_ *testing.T, w *filteredFleet) {
			w.set(health.Backend{State: health.Down, Refused: true, Reason: "again"})
		}, time.Second, false},
		"another backend": {func(t *testing.T, w *filteredFleet) {
			next, err := router.NewTable(router.Config{Fleets: []router.FleetConfig{{
				Capability: "weather", Backends: router.Addrs("b:1"), WaitForReady: time.Second,
			}}}, w.Table())
			check.Must(t, err)
			w.Swap(next)
			w.SetHealth(health.NewSnapshot("weather", []health.Backend{{Addr: "b:1", State: health.Up}}))
		}, 0, true},
	} {
		check.Bubble(t, func(t *testing.T) {
			w := newFilteredFleet(t, router.FleetConfig{WaitForReady: time.Second})
			w.set(refused)
			c, stream := w.call()
			var s ready.State
			w.filter.Admit(c, &s)
			began := time.Now()
			test.event(t, w)
			<-stream.Resumed
			if took := time.Since(began); took != test.takes {
				t.Errorf("%s: the call waited %v", name, took)
			}
			if step := w.filter.Admit(c, &s); step != filter.Continue || w.memory.Used() != 0 {
				t.Errorf("%s: step %d, %d bytes held", name, step, w.memory.Used())
			}
			if _, _, refusal := c.Fleet.Route(nil); refusal == nil != test.ready {
				t.Errorf("%s: %v", name, refusal)
			}
			if step := w.filter.Admit(c, &s); step != filter.Continue {
				t.Errorf("%s, again: step %d", name, step)
			}
			w.filter.Done(c, &s, done)
		})
	}
}

// TestOwnSession: a call of a session waits for the session's own backend even if another one is up.
func TestOwnSession(t *testing.T) {
	t.Parallel()
	check.Bubble(t, func(t *testing.T) {
		w := newFilteredFleet(t, router.FleetConfig{WaitForReady: time.Second, Backends: []router.BackendConfig{
			{Addr: "a:1", Session: "s1"}, {Addr: "b:1"},
		}})
		own := func(b health.Backend) {
			b.Addr = "a:1"
			w.SetHealth(health.NewSnapshot("weather", []health.Backend{b, {Addr: "b:1", State: health.Up}}))
		}
		own(refused)
		other, _ := w.call()
		if step := w.filter.Admit(other, &ready.State{}); step != filter.Continue {
			t.Errorf("a call without a session: step %d", step)
		}
		c, stream := w.call()
		c.Info.Session = "s1"
		var s ready.State
		if step := w.filter.Admit(c, &s); step != filter.Wait {
			t.Errorf("step %d", step)
		}
		own(up)
		<-stream.Resumed
	})
}

// TestManyWait: few early probes are requested, however many calls wait. Calls for which there is no memory do not
// wait.
func TestManyWait(t *testing.T) {
	t.Parallel()
	check.Bubble(t, func(t *testing.T) {
		w := newFilteredFleet(t, router.FleetConfig{WaitForReady: time.Hour})
		w.set(refused)
		waiting := 0
		for range 1000 {
			c, stream := w.call()
			if w.filter.Admit(c, &ready.State{}); stream.Waits() {
				waiting++
			}
			<-time.After(time.Millisecond)
		}
		if waiting == 0 || waiting > 256 || w.asked < 2 || w.asked > 10 {
			t.Errorf("%d calls wait; %d demands in a second", waiting, w.asked)
		}
		w.set(up)
	})
}

// A call waits while the only backend of its fleet is not running.
func Example() {
	w := newFilteredFleet(&testing.B{}, router.FleetConfig{WaitForReady: time.Minute})
	w.set(refused)
	c, stream := w.call()
	var s ready.State
	w.filter.Admit(c, &s)
	fmt.Println(stream.Waits())
	w.set(up)
	<-stream.Resumed
	fmt.Println(w.filter.Admit(c, &s) == filter.Continue)
	// Output:
	// true
	// true
}
