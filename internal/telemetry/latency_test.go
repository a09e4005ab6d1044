package telemetry_test

import (
	"io"
	"math"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	dto "github.com/prometheus/client_model/go"
	"github.com/prometheus/common/expfmt"

	"github.com/capgate/capgate/internal/telemetry"
	"github.com/capgate/capgate/internal/testkit/check"
)

const protobuf = "application/vnd.google.protobuf;proto=io.prometheus.client.MetricFamily;encoding=delimited"

// get scrapes over a socket.
func get(tb testing.TB, m *telemetry.Metrics, accept string) *http.Response {
	tb.Helper()
	server := httptest.NewServer(m.Handler())
	tb.Cleanup(server.Close)
	req, err := http.NewRequestWithContext(tb.Context(), http.MethodGet, server.URL, nil)
	check.Must(tb, err)
	req.Header.Set("Accept", accept)
	client := server.Client()
	client.Timeout = time.Minute
	resp, err := client.Do(req)
	check.Must(tb, err)
	tb.Cleanup(func() { _ = resp.Body.Close() })
	return resp
}

// histogramOf finds a histogram in a scrape in protobuf.
func histogramOf(tb testing.TB, m *telemetry.Metrics, name string, labels ...string) *dto.Histogram {
	tb.Helper()
	resp := get(tb, m, protobuf)
	in := expfmt.NewDecoder(resp.Body, expfmt.ResponseFormat(resp.Header))
	for {
		var family dto.MetricFamily
		if err := in.Decode(&family); err != nil {
			tb.Fatalf("%s%v: %v", name, labels, err)
		}
		if family.GetName() != name {
			continue
		}
		for _, metric := range family.GetMetric() {
			var values []string
			for _, l := range metric.GetLabel() {
				values = append(values, l.GetValue())
			}
			if slices.Equal(values, labels) {
				return metric.GetHistogram()
			}
		}
	}
}

// TestLatenciesAreAsClientGolangCountsThem: bucket for bucket, from nanoseconds to hours.
func TestLatenciesAreAsClientGolangCountsThem(t *testing.T) {
	t.Parallel()
	m := newMetrics(t, telemetry.MetricsConfig{})
	r := telemetry.NewRecorder(m, nil)
	same := prometheus.NewHistogram(prometheus.HistogramOpts{Name: "same", NativeHistogramBucketFactor: 1.1,
		NativeHistogramZeroThreshold: 1.0 / (1 << 16),
		Buckets: []float64{0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60,
			120, 300}})
	took := []time.Duration{0, 1, 15258, 15259, 500 * time.Microsecond, 500*time.Microsecond + 1, time.Second / 2,
		time.Second/2 + 1, time.Second, time.Second + 1, 2 * time.Second,
		64 * time.Second, 5 * time.Minute, time.Hour, 1 << 15 * time.Second}
	for range 5000 {
		took = append(took, time.Duration(math.Exp(rand.Float64()*math.Log(9*3.6e12))))
	}
	for i, d := range took {
		rec := sample()
		rec.Capability, rec.Ended, rec.Shard = m.Capability("weather"), d, uint32(i)
		r.Record(rec)
		same.Observe(d.Seconds())
	}
	got := histogramOf(t, m, "capgate_call_duration_seconds", "weather", "OK")
	var other dto.Metric
	check.Must(t, same.Write(&other))
	want := other.GetHistogram()
	if got.GetSampleCount() != want.GetSampleCount() ||
		math.Abs(got.GetSampleSum()-want.GetSampleSum()) > 1e-6*want.GetSampleSum() {
		t.Errorf("%d calls of %v s, want %d of %v s", got.GetSampleCount(), got.GetSampleSum(),
			want.GetSampleCount(), want.GetSampleSum())
	}
	if got.GetSchema() != want.GetSchema() || got.GetZeroThreshold() != want.GetZeroThreshold() ||
		got.GetZeroCount() != want.GetZeroCount() {
		t.Errorf("got schema %d, %d to %v; want schema %d, %d to %v", got.GetSchema(), got.GetZeroCount(),
			got.GetZeroThreshold(),
			want.GetSchema(), want.GetZeroCount(), want.GetZeroThreshold())
	}
	if g, w := spans(got), spans(want); !slices.Equal(g, w) ||
		!slices.Equal(got.GetPositiveDelta(), want.GetPositiveDelta()) {
		t.Errorf("native buckets\ngot  %v %v\nwant %v %v", g, got.GetPositiveDelta(), w, want.GetPositiveDelta())
	}
	for i, b := range want.GetBucket() {
		if g := got.GetBucket()[i]; g.GetUpperBound() != b.GetUpperBound() ||
			g.GetCumulativeCount() != b.GetCumulativeCount() {
			t.Errorf("classic bucket: got %v, want %v", g, b)
		}
	}
}

func spans(h *dto.Histogram) (all [][2]int) {
	for _, s := range h.GetPositiveSpan() {
		all = append(all, [2]int{int(s.GetOffset()), int(s.GetLength())})
	}
	return all
}

// TestALatencyBeyondTheLastBucket is in it.
func TestALatencyBeyondTheLastBucket(t *testing.T) {
	t.Parallel()
	m := newMetrics(t, telemetry.MetricsConfig{})
	rec := sample()
	rec.Capability, rec.Ended = m.Capability("weather"), 1000*time.Hour
	telemetry.NewRecorder(m, nil).Record(rec)
	h := histogramOf(t, m, "capgate_call_duration_seconds", "weather", "OK")
	if s := spans(h); len(s) != 1 || s[0] != [2]int{15 * 8, 1} || h.GetSampleCount() != 1 {
		t.Errorf("%d calls, spans %v", h.GetSampleCount(), s)
	}
}

// TestExemplars: traced calls are examples of their bucket, the newest of each.
func TestExemplars(t *testing.T) {
	t.Parallel()
	m := newMetrics(t, telemetry.MetricsConfig{})
	r := telemetry.NewRecorder(m, nil)
	for i, took := range []time.Duration{time.Millisecond, 700 * time.Microsecond, time.Hour, 800 * time.Microsecond} {
		rec := sample()
		rec.Capability, rec.Ended, rec.Trace, rec.Traced = m.Capability("weather"), took,
			telemetry.TraceID{0xab, byte(i)}, i != 3
		r.Record(rec)
	}
	id := func(i string) string { return "ab" + i + strings.Repeat("0", 28) }
	resp := get(t, m, "application/openmetrics-text;version=1.0.0")
	if kind := resp.Header.Get("Content-Type"); !strings.HasPrefix(kind, "application/openmetrics-text") {
		t.Errorf("OpenMetrics is %s", kind)
	}
	page, err := io.ReadAll(resp.Body)
	check.Must(t, err)
	for _, line := range []string{
		`le="0.001"} 3 # {trace_id="` + id("01") + `"} 0.0007 `,
		`le="+Inf"} 4 # {trace_id="` + id("02") + `"} 3600.0 `,
	} {
		if !strings.Contains(string(page), line) {
			t.Errorf("no %s in\n%s", line, page)
		}
	}
	if !strings.HasSuffix(string(page), "# EOF\n") || strings.Count(string(page), "# {") != 2 {
		t.Errorf("%s", page)
	}
	h := histogramOf(t, m, "capgate_call_duration_seconds", "weather", "OK")
	if n := len(h.GetExemplars()); n != 2 || h.GetExemplars()[0].GetLabel()[0].GetValue() != id("01") ||
		h.GetExemplars()[0].GetTimestamp() == nil {
		t.Errorf("exemplars %v; n %+v", h.GetExemplars(), n)
	}
	if got := scrape(t, m)[`capgate_call_duration_seconds_bucket{capability="weather",code="OK",le="+Inf"}`]; got != "4" {
		t.Errorf("the old text has %s calls", got)
	}
}

// TestAPersonsTimeIsNotCounted: neither in the histogram nor in an exemplar.
func TestAPersonsTimeIsNotCounted(t *testing.T) {
	t.Parallel()
	m := newMetrics(t, telemetry.MetricsConfig{})
	rec := sample()
	rec.Capability, rec.Trace, rec.Traced = m.Capability("weather"), telemetry.TraceID{1}, true
	rec.Ended, rec.Held = time.Hour+2*time.Second, time.Hour
	telemetry.NewRecorder(m, nil).Record(rec)
	h := histogramOf(t, m, "capgate_call_duration_seconds", "weather", "OK")
	if h.GetSampleSum() != 2 || len(h.GetExemplars()) != 1 || h.GetExemplars()[0].GetValue() != 2 {
		t.Errorf("%v", h)
	}
}
