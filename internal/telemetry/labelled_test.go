package telemetry_test

import (
	"testing"
	"time"

	"github.com/capgate/capgate/internal/call"
	"github.com/capgate/capgate/internal/telemetry"
)

// TestLabelsAreBounded: the first tools and backends that capabilities have are labels. Other ones, and the names that
// callers make up, share one.
func TestLabelsAreBounded(t *testing.T) {
	t.Parallel()
	m := newMetrics(t, telemetry.MetricsConfig{Tools: 3, Backends: 1})
	r := telemetry.NewRecorder(m, nil)
	m.SetTools("weather", []string{"get", "put", "other"})
	m.SetTools("mail", []string{"send", "read"})
	m.SetBackends("weather", []string{"10.0.0.7:50051", "10.0.0.8:50051"})
	record := func(capability, tool string, change func(*telemetry.Record)) {
		rec := sample()
		rec.Capability, rec.Call.Tool, rec.Ended = m.Capability(capability), tool, 30*time.Millisecond
		if change != nil {
			change(rec)
		}
		r.Record(rec)
	}
	record("weather", "get", nil)
	record("weather", "get", func(rec *telemetry.Record) { rec.Outcome = telemetry.ToolError })
	record("weather", "get", func(rec *telemetry.Record) { rec.Code, rec.Reason = 7, "POLICY_BLOCKED" })
	record("weather", "get", func(rec *telemetry.Record) { rec.Code, rec.Reason = 7, call.ApprovalRequired })
	record("weather", "put", func(rec *telemetry.Record) { rec.Code = 14 })
	record("weather", "made up by a caller", nil)
	record("mail", "send", nil)
	record("mail", "read", nil)
	record("weather", "put", func(rec *telemetry.Record) { rec.Backend = "10.0.0.8:50051" })
	want := map[string]string{
		`capgate_tool_calls_total{capability="weather",result="answered",tool="get"}`:                    "1",
		`capgate_tool_calls_total{capability="weather",result="tool_error",tool="get"}`:                  "1",
		`capgate_tool_calls_total{capability="weather",result="refused",tool="get"}`:                     "1",
		`capgate_tool_calls_total{capability="weather",result="asked",tool="get"}`:                       "1",
		`capgate_tool_calls_total{capability="weather",result="failed",tool="put"}`:                      "1",
		`capgate_tool_calls_total{capability="weather",result="answered",tool="other"}`:                  "1",
		`capgate_tool_calls_total{capability="mail",result="answered",tool="send"}`:                      "1",
		`capgate_tool_calls_total{capability="mail",result="answered",tool="other"}`:                     "1",
		`capgate_tool_duration_seconds_bucket{capability="weather",tool="get",le="0.025"}`:               "0",
		`capgate_tool_duration_seconds_bucket{capability="weather",tool="get",le="0.05"}`:                "4",
		`capgate_backend_calls_total{backend="other",capability="weather",result="answered"}`:            "1",
		`capgate_backend_calls_total{backend="10.0.0.7:50051",capability="weather",result="tool_error"}`: "1",
		`capgate_refusals_total{reason="POLICY_BLOCKED"}`:                                                "1",
		`capgate_asked_total`: "1",
	}
	got := scrape(t, m)
	for series, n := range want {
		if got[series] != n {
			t.Errorf("%s = %q, want %s", series, got[series], n)
		}
	}
	if n := got[`capgate_refusals_total{reason="`+call.ApprovalRequired+`"}`]; n != "" {
		t.Errorf("%s calls that need approval count as refused", n)
	}
	m.SetTools("weather", []string{"put"}) // get is gone: its label is free
	m.SetTools("mail", []string{"send", "read"})
	record("mail", "read", nil)
	got = scrape(t, m)
	for series, n := range map[string]string{
		`capgate_tool_calls_total{capability="mail",result="answered",tool="read"}`:   "1",
		`capgate_tool_calls_total{capability="weather",result="failed",tool="put"}`:   "1",
		`capgate_tool_calls_total{capability="weather",result="answered",tool="get"}`: "",
	} {
		if got[series] != n {
			t.Errorf("%s = %q, want %q", series, got[series], n)
		}
	}
	m.Forget("weather")
	m.SetTools("files", []string{"list"})
	record("files", "list", nil)
	if scrape(t, m)[`capgate_tool_calls_total{capability="files",result="answered",tool="list"}`] != "1" {
		t.Error("the label of a forgotten capability's tool is not free")
	}
}
