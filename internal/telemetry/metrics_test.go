package telemetry_test

import (
	"fmt"
	"io"
	"net/http/httptest"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/capgate/capgate/internal/call"
	"github.com/capgate/capgate/internal/lib/metric"
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
		`capgate_calls_total{capability="weather",code="OK",method="Invoke",outcome="success"}`:         "1",
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

// TestSources: a package's metrics are served, even if their labels are not valid UTF-8. A name belongs to one source.
func TestSources(t *testing.T) {
	t.Parallel()
	m := newMetrics(t, telemetry.MetricsConfig{})
	set := metric.New("capgate_test_")
	calls, waiting := set.Add("calls_total", "Calls.", "a", "b"), set.Add("waiting", "Waiting.")
	up, took := set.Add("up", "Up."), set.Add("seconds", "Durations.", "of")
	set.Read = func(w metric.Writer) {
		w.Count(calls, 7, "x", "\xff")
		w.Gauge(waiting, 1.5)
		w.Flag(up, true)
		w.Histogram(took, 3, 4.5, map[float64]uint64{1: 2}, "y")
	}
	check.Must(t, m.Add(set))
	got := scrape(t, m)
	for series, want := range map[string]string{
		"capgate_test_calls_total{a=\"x\",b=\"\uFFFD\"}": "7",
		`capgate_test_waiting`:                           "1.5",
		`capgate_test_up`:                                "1",
		`capgate_test_seconds_count{of="y"}`:             "3",
		`capgate_test_seconds_sum{of="y"}`:               "4.5",
		`capgate_test_seconds_bucket{of="y",le="1"}`:     "2",
		`capgate_test_seconds_bucket{of="y",le="+Inf"}`:  "3",
	} {
		if got[series] != want {
			t.Errorf("%s = %q, want %s", series, got[series], want)
		}
	}
	if err := m.Add(set); err == nil {
		t.Error("a second source has the same metrics")
	}
}
