package telemetry_test

import (
	"bytes"
	"maps"
	"strings"
	"sync"
	"testing"

	"github.com/capgate/capgate/internal/call"
	"github.com/capgate/capgate/internal/telemetry"
	"github.com/capgate/capgate/internal/testkit/check"
)

// decisionsOf returns the series of decisions.
func decisionsOf(tb testing.TB, m *telemetry.Metrics) map[string]string {
	tb.Helper()
	all := scrape(tb, m)
	maps.DeleteFunc(all, func(series,
		_ string) bool {
		return !strings.HasPrefix(series, "capgate_policy_decisions_total")
	})
	return all
}

// TestDifferencesAreCounted: what candidate rules would have said, in metrics and lines.
func TestDifferencesAreCounted(t *testing.T) {
	t.Parallel()
	var lines bytes.Buffer
	log := telemetry.NewAccessLog(&lines, telemetry.AccessLogConfig{})
	m := newMetrics(t, telemetry.MetricsConfig{})
	r := telemetry.NewRecorder(m, log)
	for shard := range uint32(20) {
		rec := sample()
		rec.Capability, rec.Shard = m.Capability("weather"), shard
		rec.Decision = telemetry.Decision{Made: true, Level: call.ByUser, Verdict: call.Allow, Differs: shard%2 == 0,
			Candidate: call.Ask}
		r.Record(rec)
	}
	check.Must(t, log.Close())
	const differences = `capgate_policy_shadow_differences_total{candidate="ask",capability="weather",decision="allow"}`
	if n := scrape(t, m)[differences]; n != "10" {
		t.Errorf("%q differences", n)
	}
	if n := strings.Count(lines.String(), `"policy_level":"user","policy_candidate":"ask"`); n != 10 {
		t.Errorf("%d lines have them:\n%s", n, &lines)
	}
}

// TestDecisionsAreCounted: decisions are counted from many goroutines at once, on any shard.
func TestDecisionsAreCounted(t *testing.T) {
	t.Parallel()
	m := newMetrics(t, telemetry.MetricsConfig{})
	r := telemetry.NewRecorder(m, nil)
	var all sync.WaitGroup
	for shard := range uint32(20) {
		all.Go(func() {
			for _, d := range []telemetry.Decision{
				{},
				{Made: true, Level: call.ByUserAgent, Verdict: call.Block},
				{Made: true, Level: call.ByTenant, Verdict: call.Allow, Cached: true},
				{Made: true, Level: call.ByTenant, Verdict: call.Allow, Cached: true},
				{Made: true, Level: call.ByDefault, Verdict: call.Ask},
			} {
				rec := sample()
				rec.Shard, rec.Decision = shard, d
				r.Record(rec)
			}
		})
	}
	all.Wait()
	want := map[string]string{
		`capgate_policy_decisions_total{cached="false",decision="block",level="user+agent"}`: "20",
		`capgate_policy_decisions_total{cached="true",decision="allow",level="tenant"}`:      "40",
		`capgate_policy_decisions_total{cached="false",decision="ask",level="default"}`:      "20",
	}
	if got := decisionsOf(t, m); !maps.Equal(got, want) {
		t.Errorf("got %v", got)
	}
}
