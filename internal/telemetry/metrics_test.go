package telemetry_test

import (
	"fmt"
	"io"
	"net/http/httptest"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/capgate/capgate/internal/call"
	"github.com/capgate/capgate/internal/telemetry"
	"github.com/capgate/capgate/internal/testkit/check"
)

func newMetrics(tb testing.TB, cfg telemetry.MetricsConfig) *telemetry.Metrics {
	tb.Helper()
	m, err := telemetry.NewMetrics(prometheus.NewPedanticRegistry(), cfg)
	check.Must(tb, err)
	return m
}

// scrape returns the lines of capgate's own metrics by series.
func scrape(tb testing.TB, m *telemetry.Metrics) map[string]string {
	tb.Helper()
	w := httptest.NewRecorder()
	m.Handler().ServeHTTP(w, httptest.NewRequest("GET", "/metrics", nil))
	if w.Code != 200 {
		tb.Fatalf("status %d: %s", w.Code, w.Body)
	}
	series := make(map[string]string)
	for line := range strings.Lines(w.Body.String()) {
		if strings.HasPrefix(line, "capgate_") {
			i := strings.LastIndexByte(line, ' ')
			series[line[:i]] = strings.TrimSpace(line[i+1:])
		}
	}
	return series
}

func TestMetricsCount(t *testing.T) {
	t.Parallel()
	m := newMetrics(t, telemetry.MetricsConfig{Version: "v1", Revision: "abc"})
	m.WatchUpstreams(func() int { return 3 })
	m.WatchFleets(slices.Values([]telemetry.Fleet{{
		Capability: "trouble", Usable: 1, Down: 2, Ejected: 3, Off: 4, Panic: true, Ejections: 5, EjectionsPrevented: 6,
		Retries: 7, RetriesDenied: 8,
		Limited: true, ConcurrencyLimit: 9, InFlight: 3, Waiting: 10, Waits: 11, LimitRefused: 12,
		Unusable: []telemetry.UnusableBackend{{"b:1", "down", "not ready", time.Unix(9, 5e8)},
			{"b:2", "off", "its weight is 0", time.Time{}}},
	}, {Capability: "calm"}}))
	r := telemetry.NewRecorder(m, nil)
	weather := m.Capability("weather")

	ok := sample()
	ok.Capability = weather
	begin(r, ok)
	open := sample()
	open.Capability = weather
	begin(r, open)
	r.Record(ok)

	lost := sample()
	lost.Capability, lost.Code, lost.Outcome, lost.Failure = weather, 14, telemetry.NoOutcome, "UPSTREAM_LOST"
	lost.Call.Method, lost.Ended, lost.Shard = call.StreamInvoke, time.Hour, 12345
	r.Record(lost)

	refused := sample()
	refused.Call.Capability, refused.Code, refused.Reason, refused.Outcome = "client/chose\nthis", 5,
		"UNKNOWN_CAPABILITY", 0
	r.Record(refused)

	got := scrape(t, m)
	for series, want := range map[string]string{
		`capgate_calls_total{capability="weather",code="OK",method="Invoke",outcome="success"}`: "1",
		`capgate_backend_unusable_since_timestamp_seconds{backend="b:1",capability="trouble",reason="not ready",` +
			`state="down"}`: "9.5",
		`capgate_backend_unusable_since_timestamp_seconds{backend="b:2",capability="trouble",reason="its weight is 0",` +
			`state="off"}`: "0",
		`capgate_calls_total{capability="weather",code="UNAVAILABLE",method="StreamInvoke",outcome=""}`: "1",
		`capgate_calls_total{capability="",code="NOT_FOUND",method="Invoke",outcome=""}`:                "1",
		`capgate_calls_in_flight{capability="weather"}`:                                                 "1",
		`capgate_calls_in_flight{capability=""}`:                                                        "0",
		`capgate_call_bytes_total{capability="weather",direction="in"}`:                                 "2058",
		`capgate_call_bytes_total{capability="weather",direction="out"}`:                                "1034",
		`capgate_call_duration_seconds_bucket{capability="weather",code="OK",le="0.001"}`:               "0",
		`capgate_call_duration_seconds_bucket{capability="weather",code="OK",le="0.0025"}`:              "1",
		`capgate_call_duration_seconds_sum{capability="weather",code="OK"}`:                             "0.00125",
		`capgate_call_duration_seconds_bucket{capability="weather",code="UNAVAILABLE",le="300"}`:        "0",
		`capgate_call_duration_seconds_bucket{capability="weather",code="UNAVAILABLE",le="+Inf"}`:       "1",
		`capgate_call_duration_seconds_count{capability="weather",code="UNAVAILABLE"}`:                  "1",
		`capgate_refusals_total{reason="UNKNOWN_CAPABILITY"}`:                                           "1",
		`capgate_failures_total{failure="UPSTREAM_LOST"}`:                                               "1",
		`capgate_fleet_backends{capability="trouble",state="usable"}`:                                   "1",
		`capgate_fleet_backends{capability="trouble",state="down"}`:                                     "2",
		`capgate_fleet_backends{capability="trouble",state="ejected"}`:                                  "3",
		`capgate_fleet_backends{capability="trouble",state="off"}`:                                      "4",
		`capgate_fleet_panic{capability="trouble"}`:                                                     "1",
		`capgate_fleet_panic{capability="calm"}`:                                                        "0",
		`capgate_ejections_total{capability="trouble",result="ejected"}`:                                "5",
		`capgate_ejections_total{capability="trouble",result="spared"}`:                                 "6",
		`capgate_retries_total{capability="trouble",result="sent"}`:                                     "7",
		`capgate_retries_total{capability="trouble",result="denied"}`:                                   "8",
		`capgate_fleet_places{capability="trouble",state="used"}`:                                       "3",
		`capgate_fleet_places{capability="trouble",state="free"}`:                                       "6",
		`capgate_fleet_waiting{capability="trouble"}`:                                                   "10",
		`capgate_limit_waits_total{capability="trouble"}`:                                               "11",
		`capgate_limit_refused_total{capability="trouble"}`:                                             "12",
		`capgate_upstream_connections`:                                                                  "3",
	} {
		if got[series] != want {
			t.Errorf("%s = %q, want %s", series, got[series], want)
		}
	}
	for series := range got {
		if strings.Contains(series, "client") {
			t.Errorf("a client's word became a label: %s", series)
		}
	}
	r.Record(open)
	if n := scrape(t, m)[`capgate_calls_in_flight{capability="weather"}`]; n != "0" {
		t.Errorf("%s calls in flight after the last ended", n)
	}
	m.Forget("weather")
	for series := range scrape(t, m) {
		if strings.Contains(series, "weather") {
			t.Errorf("forgotten, yet there is %s", series)
		}
	}
}

func TestReasonsAreBounded(t *testing.T) {
	t.Parallel()
	m := newMetrics(t, telemetry.MetricsConfig{})
	r := telemetry.NewRecorder(m, nil)
	for i := range 1000 {
		rec := sample()
		rec.Reason = fmt.Sprintf("REASON_%d", i)
		r.Record(rec)
		r.Record(rec)
	}
	reasons := 0
	for series := range scrape(t, m) {
		if strings.HasPrefix(series, "capgate_refusals_total") {
			reasons++
		}
	}
	if other := scrape(t, m)[`capgate_refusals_total{reason="OTHER"}`]; reasons != 64 || other != "1874" {
		t.Errorf("%d reasons, %s others", reasons, other)
	}
}

func TestCountingAtTheSameTime(t *testing.T) {
	t.Parallel()
	m := newMetrics(t, telemetry.MetricsConfig{})
	r := telemetry.NewRecorder(m, nil)
	const goroutines, calls = 8, 500
	var wg sync.WaitGroup
	for shard := range goroutines {
		wg.Go(func() {
			for i := range calls {
				rec := sample()
				rec.Shard, rec.Code = uint32(shard), uint32(i%17)
				rec.Reason = fmt.Sprintf("R%d", i%5)
				rec.Capability = m.Capability(fmt.Sprintf("c%d", i%3))
				begin(r, rec)
				r.Record(rec)
			}
		})
	}
	for range 20 {
		scrape(t, m)
	}
	wg.Wait()
	total, refused := 0, 0
	for series, value := range scrape(t, m) {
		n, err := strconv.ParseFloat(value, 64)
		if err != nil {
			t.Errorf("%s: %v", series, err)
		}
		switch {
		case strings.HasPrefix(series, "capgate_calls_total"):
			total += int(n)
		case strings.HasPrefix(series, "capgate_refusals_total"):
			refused += int(n)
		case strings.HasPrefix(series, "capgate_calls_in_flight") && n != 0:
			t.Errorf("%s = %s", series, value)
		}
	}
	if total != goroutines*calls || refused != total {
		t.Errorf("%d calls, %d refusals, want %d of each", total, refused, goroutines*calls)
	}
}

func TestRegisteringTwiceFails(t *testing.T) {
	t.Parallel()
	reg := prometheus.NewRegistry()
	if _, err := telemetry.NewMetrics(reg, telemetry.MetricsConfig{}); err != nil {
		t.Fatal(err)
	}
	if _, err := telemetry.NewMetrics(reg, telemetry.MetricsConfig{}); err == nil {
		t.Error("no error")
	}
}

func TestRecordDoesNotAllocate(t *testing.T) { // not parallel: AllocsPerRun counts what every goroutine allocates
	log := telemetry.NewAccessLog(io.Discard, telemetry.AccessLogConfig{})
	m := newMetrics(t, telemetry.MetricsConfig{Log: log, Tenants: 1})
	r := telemetry.NewRecorder(m, log)
	rec := sample()
	rec.Capability, rec.Tenant = m.Capability("weather"), m.Tenant("acme")
	rec.Trace = telemetry.TraceID{1} // that the caller has, and we do not sample
	if n := testing.AllocsPerRun(2000, func() { begin(r, rec); r.Record(rec) }); n != 0 {
		t.Errorf("%v allocations a call", n)
	}
	if err := log.Close(); err != nil || log.Dropped() != 0 {
		t.Errorf("Close: %v, %d lines dropped", err, log.Dropped())
	}
}

// begin counts rec's call as in flight, as the gateway does.
func begin(r *telemetry.Recorder, rec *telemetry.Record) {
	rec.InFlight = true
	r.Begin(rec.Capability, rec.Tenant, rec.Shard)
}
