package telemetry_test

import (
	"strings"
	"testing"
	"time"

	"github.com/capgate/capgate/internal/call"
	"github.com/capgate/capgate/internal/telemetry"
)

func TestEngines(t *testing.T) {
	t.Parallel()
	m := newMetrics(t, telemetry.MetricsConfig{Tenants: 1})
	m.Capability("no engine")
	e := m.Capability("atlas").Engine()
	if got := scrape(t, m); got[`capgate_engine_turns_total{capability="atlas",result="full"}`] != "0" || got[`capgate_engine_turn_wait_seconds_count{capability="atlas"}`] != "0" {
		t.Errorf("before anything happens: %v", got)
	}
	acme, other := m.Tenant("acme"), m.Tenant("globex")
	e.Waits(2)
	e.Waits(-1)
	e.Runs(1)
	e.Attends(1)
	e.Turned(acme, call.TurnCame, 20*time.Millisecond)
	e.Turned(acme, call.TurnCame, time.Hour)
	e.Turned(other, call.TurnFull, time.Hour)
	e.Turned(nil, call.TurnLeft, time.Second)
	m.Capability("atlas").Engine().CutOff(call.StreamLost)
	got := scrape(t, m)
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
	m.Forget("atlas")
	for series := range scrape(t, m) {
		if strings.Contains(series, "atlas") {
			t.Errorf("forgotten, yet there is %s", series)
		}
	}
}
