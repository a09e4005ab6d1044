package metrics_test

import (
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/capgate/capgate/gateway/engine"
	"github.com/capgate/capgate/gateway/engine/metrics"
	"github.com/capgate/capgate/internal/telemetry"
	"github.com/capgate/capgate/internal/testkit/check"
)

// scrape returns the lines of capgate's own metrics by series.
func scrape(t *testing.T, m *telemetry.Metrics) map[string]string {
	t.Helper()
	w := httptest.NewRecorder()
	m.Handler().ServeHTTP(w, httptest.NewRequest("GET", "/metrics", nil))
	if w.Code != 200 {
		t.Fatalf("status %d: %s", w.Code, w.Body)
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

func TestMetrics(t *testing.T) {
	t.Parallel()
	all, err := telemetry.NewMetrics(prometheus.NewPedanticRegistry(), telemetry.MetricsConfig{Tenants: 1})
	check.Must(t, err)
	configured := []string{"atlas"}
	m := metrics.New(func() []string { return configured }, all)
	check.Must(t, all.Add(m))
	all.Capability("no engine")
	const full = `capgate_engine_turns_total{capability="atlas",result="full"}`
	if got := scrape(t, all); got[full] != "0" ||
		got[`capgate_engine_turn_wait_seconds_count{capability="atlas"}`] != "0" {
		t.Errorf("before anything happens: %v", got)
	}
	acme, other, nobody := m.Of("atlas", "acme"), m.Of("atlas", "globex"), m.Of("atlas", "")
	acme.AddWaiting(2)
	acme.AddWaiting(-1)
	acme.AddRunning(1)
	acme.AddAgents(1)
	acme.TurnEnded(engine.TurnCame, 20*time.Millisecond)
	acme.TurnEnded(engine.TurnCame, time.Hour)
	other.TurnEnded(engine.TurnFull, time.Hour)
	nobody.TurnEnded(engine.TurnLeft, time.Second)
	m.Of("atlas", "acme").CutOff(engine.StreamLost)
	got := scrape(t, all)
	for series, want := range map[string]string{
		`capgate_engine_messages_waiting{capability="atlas"}`:                     "1",
		`capgate_engine_messages_running{capability="atlas"}`:                     "1",
		`capgate_engine_agents{capability="atlas"}`:                               "1",
		`capgate_engine_turns_total{capability="atlas",result="came"}`:            "2",
		`capgate_engine_turns_total{capability="atlas",result="full"}`:            "1",
		`capgate_engine_turns_total{capability="atlas",result="left"}`:            "1",
		`capgate_engine_turns_total{capability="atlas",result="unknown"}`:         "0",
		`capgate_engine_turn_wait_seconds_count{capability="atlas"}`:              "2",
		`capgate_engine_turn_wait_seconds_sum{capability="atlas"}`:                "3600.02",
		`capgate_engine_turn_wait_seconds_bucket{capability="atlas",le="0.025"}`:  "1",
		`capgate_engine_cut_off_total{capability="atlas",reason="stream_lost"}`:   "1",
		`capgate_engine_cut_off_total{capability="atlas",reason="reader_slow"}`:   "0",
		`capgate_tenant_engine_turns_total{result="came",tenant="acme"}`:          "2",
		`capgate_tenant_engine_turns_total{result="full",tenant="other"}`:         "1",
		`capgate_engine_turns_total{capability="no engine",result="came"}`:        "",
		`capgate_tenant_engine_turns_total{result="left",tenant="other"}`:         "",
		`capgate_engine_turn_wait_seconds_bucket{capability="atlas",le="+Inf"}`:   "2",
		`capgate_engine_turn_wait_seconds_bucket{capability="atlas",le="0.0005"}`: "0",
	} {
		if got[series] != want {
			t.Errorf("%s = %q, want %q", series, got[series], want)
		}
	}
	configured = nil
	all.ForgetTenant("acme")
	for series := range scrape(t, all) {
		if strings.Contains(series, "atlas") && strings.Contains(series, "engine") || strings.Contains(series, "acme") {
			t.Errorf("forgotten, yet there is %s", series)
		}
	}
	configured = []string{"atlas"}
	if got := scrape(t, all); got[full] != "0" {
		t.Errorf("configured again: %q messages, want 0", got[full])
	}
}
