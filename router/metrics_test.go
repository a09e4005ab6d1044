package router_test

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/capgate/capgate/health"
	"github.com/capgate/capgate/internal/testkit/metrictest"
	"github.com/capgate/capgate/router"
)

// TestMetrics: the states of backends, ejections and retries of a fleet are its metrics.
func TestMetrics(t *testing.T) {
	t.Parallel()
	backends := named(14)
	for i := 8; i < 12; i++ {
		backends[i].Weight = -1
	}
	w := newTestFleet(t, router.FleetConfig{Backends: backends, SlowStart: -1}, "")
	w.router.SetDrains([]router.Drain{{Addr: "a12:1", Since: time.Unix(9, 5e8)}})
	for range 5 {
		w.hit("a0:1", router.Outcome{Class: router.Failed})
	}
	for range 3 {
		w.call(func(string) router.Outcome { return router.Outcome{} })
		w.fleet.AllowRetry()
	}
	w.health(up, down, down, up, up, up, up, up, up, up, up, up, up, up)
	s := w.fleet.Stats()
	for series, want := range map[string]float64{
		`capgate_fleet_backends{capability="weather",state="usable"}`:    6,
		`capgate_fleet_backends{capability="weather",state="down"}`:      2,
		`capgate_fleet_backends{capability="weather",state="ejected"}`:   1,
		`capgate_fleet_backends{capability="weather",state="off"}`:       4,
		`capgate_fleet_backends{capability="weather",state="draining"}`:  1,
		`capgate_fleet_panic{capability="weather"}`:                      0,
		`capgate_ejections_total{capability="weather",result="ejected"}`: 1,
		`capgate_ejections_total{capability="weather",result="spared"}`:  0,
		`capgate_retries_total{capability="weather",result="sent"}`:      float64(s.Retries),
		`capgate_retries_total{capability="weather",result="denied"}`:    float64(s.RetriesDenied),
		`capgate_backend_unusable_since_timestamp_seconds{capability="weather",backend="a12:1",state="draining",` +
			`reason="drained by an operator"}`: 9.5,
		`capgate_backend_unusable_since_timestamp_seconds{capability="weather",backend="a8:1",state="off",` +
			`reason="its weight is 0"}`: 0,
	} {
		if got, is := metrictest.Read(t, w.router)[series]; !is || got != want {
			t.Errorf("%s is %v, want %v", series, got, want)
		}
	}
	w.health(down, down, down, down, down, down, down, up, up, up, up, up, up, up)
	if metrictest.Read(t, w.router)[`capgate_fleet_panic{capability="weather"}`] != 1 {
		t.Error("a fleet in panic is not in panic")
	}
	large := newTestFleet(t, router.FleetConfig{Backends: named(100)}, "")
	large.health(slices.Repeat([]health.Backend{down}, 100)...)
	n := 0
	for series := range metrictest.Read(t, large.router) {
		if strings.HasPrefix(series, "capgate_backend_unusable") {
			n++
		}
	}
	if n != 10 {
		t.Errorf("%d unusable backends are named", n)
	}
}

// TestMetricsOfLimits: a fleet with max_concurrent has metrics of its permits and of the calls that wait.
func TestMetricsOfLimits(t *testing.T) {
	t.Parallel()
	r := newLimited(t, nil, &concurrency{},
		router.Limit{PerBackend: 5, Queue: router.Queue{Size: 2, Wait: 3 * time.Second}}, named(1)...)
	defer r.end()
	release := r.hold(router.PermitRequest{})
	got, s := metrictest.Read(t, r.router), r.fleet().Stats()
	for series, want := range map[string]int{
		`capgate_fleet_places{capability="weather",state="used"}`: 1,
		`capgate_fleet_places{capability="weather",state="free"}`: s.Permits - 1,
		`capgate_fleet_waiting{capability="weather"}`:             0,
		`capgate_limit_waits_total{capability="weather"}`:         0,
		`capgate_limit_refused_total{capability="weather"}`:       0,
	} {
		if v, is := got[series]; !is || v != float64(want) {
			t.Errorf("%s is %v, want %d", series, v, want)
		}
	}
	release()
}
