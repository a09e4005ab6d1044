package telemetry_test

import (
	"bytes"
	"context"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"strings"
	"testing"
	"testing/synctest"
	"time"
	"unicode/utf8"

	"github.com/capgate/capgate/internal/call"
	"github.com/capgate/capgate/internal/telemetry"
	"github.com/capgate/capgate/internal/testkit/check"
)

// bySlog writes the record as slog would, one attribute at a time.
func bySlog(tb testing.TB, rec *telemetry.Record, level slog.Level, code string, text bool) string {
	tb.Helper()
	ms := func(d time.Duration) float64 { return float64(d.Microseconds()) / 1000 }
	r := slog.NewRecord(rec.Started.Add(rec.Ended), level, "call", 0)
	str := func(key, value string) {
		if value != "" {
			r.AddAttrs(slog.String(key, cut(value)))
		}
	}
	str("method", rec.Call.Method.String())
	if rec.Call.Method == call.Other {
		str("path", rec.Call.Path)
	}
	str("protocol", rec.Protocol.String())
	if rec.Call.Dialect != call.Auto {
		str("dialect", rec.Call.Dialect.String())
	}
	str("capability", rec.Call.Capability)
	str("tool", rec.Call.Tool)
	str("backend", rec.Backend)
	str("code", code)
	str("outcome", rec.Outcome.String())
	str("reason", rec.Reason)
	str("shed_by", rec.Shed.String())
	str("failure", rec.Failure)
	r.AddAttrs(slog.Int64("bytes_in", rec.BytesIn), slog.Int64("bytes_out", rec.BytesOut),
		slog.Float64("duration_ms", ms(rec.Ended)))
	if rec.Forwarded > 0 {
		r.AddAttrs(slog.Float64("forwarded_ms", ms(rec.Forwarded)))
	}
	if rec.FirstByte > 0 {
		r.AddAttrs(slog.Float64("first_byte_ms", ms(rec.FirstByte)))
	}
	str("tenant", rec.Call.Tenant)
	str("request_id", rec.RequestID)
	if !rec.Trace.IsZero() {
		str("trace_id", hex.EncodeToString(rec.Trace[:]))
	}

	var out strings.Builder
	var h slog.Handler = slog.NewJSONHandler(&out, nil)
	if text {
		h = slog.NewTextHandler(&out, nil)
	}
	check.Must(tb, h.Handle(context.Background(), r))
	return out.String()
}

// cut returns the documented bound on strings, said another way: the longest prefix of
// at most 128 bytes that does not split a character.
func cut(s string) string {
	if len(s) <= 128 {
		return s
	}
	for end := 128; end > 124; end-- {
		if utf8.RuneStart(s[end]) {
			return s[:end]
		}
	}
	return s[:124]
}

// logged returns what the log writes for the records.
func logged(tb testing.TB, cfg telemetry.AccessLogConfig, recs ...*telemetry.Record) string {
	tb.Helper()
	var out bytes.Buffer
	log := telemetry.NewAccessLog(&out, cfg)
	r := telemetry.NewRecorder(newMetrics(tb, telemetry.MetricsConfig{}), log)
	for _, rec := range recs {
		r.Record(rec)
	}
	check.Must(tb, log.Close())
	return out.String()
}

func sample() *telemetry.Record {
	return &telemetry.Record{
		Call: &call.Call{
			Tenant: "default", Path: "/selu.capability.v1.Capability/Invoke",
			Method: call.Invoke, Dialect: call.Live, Capability: "weather", Tool: "get_current_weather",
			Session: "secret-session",
		},
		Backend: "10.0.0.7:50051", Outcome: telemetry.Succeeded, BytesIn: 1029, BytesOut: 517,
		Started:   time.Date(2026, 3, 1, 12, 30, 45, 123456789, time.UTC),
		Forwarded: 41 * time.Microsecond, FirstByte: 1203 * time.Microsecond, Ended: 1250 * time.Microsecond,
	}
}

func TestLineEqualsSlog(t *testing.T) {
	t.Parallel()
	berlin := time.FixedZone("CET", 3600)
	tests := []struct {
		name   string
		change func(*telemetry.Record)
		level  slog.Level
		code   string
	}{
		{"plain", func(*telemetry.Record) {}, slog.LevelInfo, "OK"},
		{"refused", func(r *telemetry.Record) {
			*r = telemetry.Record{Call: &call.Call{Tenant: "default", Method: call.Invoke, Capability: "no-such"},
				Code: 5, Reason: "UNKNOWN_CAPABILITY", Started: r.Started}
		}, slog.LevelInfo, "NOT_FOUND"},
		{"traced", func(r *telemetry.Record) {
			r.Trace = telemetry.TraceID{0x4b, 0xf9, 15: 0x36}
		}, slog.LevelInfo, "OK"},
		{"lost", func(r *telemetry.Record) { r.Code, r.Failure = 14, "UPSTREAM_LOST" }, slog.LevelWarn, "UNAVAILABLE"},
		{"cancelled", func(r *telemetry.Record) { r.Code, r.Failure = 1, "CLIENT_GONE" }, slog.LevelInfo, "CANCELLED"},
		{"cut off", func(r *telemetry.Record) { r.Outcome = telemetry.CutOff }, slog.LevelWarn, "OK"},
		{"tool error", func(r *telemetry.Record) { r.Outcome = telemetry.ToolError }, slog.LevelInfo, "OK"},
		{"invented code", func(r *telemetry.Record) { r.Code = 4711 }, slog.LevelWarn, "UNKNOWN"},
		{"other method", func(r *telemetry.Record) {
			r.Call = &call.Call{Path: "/grpc.testing.TestService/Unary Call=\"x\""}
		}, slog.LevelInfo, "OK"},
		{"control characters", func(r *telemetry.Record) { r.Call.Tool = "a\x00b\x1f\"\\\n\r\t\x7f=" },
			slog.LevelInfo, "OK"},
		{"invalid UTF-8", func(r *telemetry.Record) { r.Call.Tool = "\xff\xc3(\xe2\x82" }, slog.LevelInfo, "OK"},
		{"separators", func(r *telemetry.Record) { r.Call.Tool = "ü\u2028\u2029\u00a0\ufffd🌦\u200b" },
			slog.LevelInfo, "OK"},
		{"backslash", func(r *telemetry.Record) { r.Call.Tool = `a\b` }, slog.LevelInfo, "OK"},
		{"long tool", func(r *telemetry.Record) { r.Call.Tool = strings.Repeat("é", 5000) }, slog.LevelInfo, "OK"},
		{"long in mid-rune", func(r *telemetry.Record) { r.Call.Tool = "x" + strings.Repeat("🌦", 5000) },
			slog.LevelInfo, "OK"},
		{"all long and escaped", func(r *telemetry.Record) {
			s := strings.Repeat("\x01", 500)
			r.Call.Tool, r.Call.Capability, r.Call.Tenant, r.Backend, r.RequestID = s, s, s, s, s
		}, slog.LevelInfo, "OK"},
		{"whole second", func(r *telemetry.Record) { r.Started, r.Ended = r.Started.Truncate(time.Second), 0 },
			slog.LevelInfo, "OK"},
		{"zone", func(r *telemetry.Record) { r.Started = r.Started.In(berlin) }, slog.LevelInfo, "OK"},
		{"long stream", func(r *telemetry.Record) { r.Ended = 1234567891 * time.Microsecond }, slog.LevelInfo, "OK"},
		{"seventeen minutes", func(r *telemetry.Record) { r.Ended = 1000 * time.Second }, slog.LevelInfo, "OK"},
		{"round milliseconds", func(r *telemetry.Record) {
			r.Ended, r.FirstByte = 120*time.Millisecond,
				time.Microsecond
		}, slog.LevelInfo, "OK"},
	}
	for _, text := range []bool{false, true} {
		for _, tt := range tests {
			t.Run(fmt.Sprintf("%s/text=%t", tt.name, text), func(t *testing.T) {
				t.Parallel()
				rec := sample()
				tt.change(rec)
				want := bySlog(t, rec, tt.level, tt.code, text)
				if got := logged(t, telemetry.AccessLogConfig{Text: text}, rec); got != want {
					t.Errorf("got  %swant %s", got, want)
				}
			})
		}
	}
}

func TestLineHoldsNoSession(t *testing.T) {
	t.Parallel()
	if got := logged(t, telemetry.AccessLogConfig{}, sample()); strings.Contains(got, "secret-session") {
		t.Errorf("the session is in %s", got)
	}
}

// TestLineHoldsNoQuery: the query of a path may have credentials.
func TestLineHoldsNoQuery(t *testing.T) {
	t.Parallel()
	for _, text := range []bool{false, true} {
		rec := sample()
		rec.Call = &call.Call{Method: call.Other, Path: "/grpc.testing.TestService/UnaryCall?token=hidden"}
		if got := logged(t, telemetry.AccessLogConfig{Text: text}, rec); strings.Contains(got, "hidden") ||
			!strings.Contains(got, "UnaryCall") {
			t.Errorf("%s", got)
		}
	}
}

func TestLevelIsRespected(t *testing.T) {
	t.Parallel()
	bad := sample()
	bad.Code = 14
	for level, want := range map[slog.Level]int{slog.LevelDebug: 2, slog.LevelInfo: 2, slog.LevelWarn: 1,
		slog.LevelError: 0} {
		got := logged(t, telemetry.AccessLogConfig{Level: level}, sample(), bad)
		if n := strings.Count(got, "\n"); n != want {
			t.Errorf("at %v: %d lines, want %d", level, n, want)
		}
	}
}

// TestLevelsOfCodes: a problem of a backend or of the gateway is a warning, and a caller's mistake is not.
func TestLevelsOfCodes(t *testing.T) {
	t.Parallel()
	for code := range uint32(18) {
		rec := sample()
		rec.Code = code
		warns := map[uint32]bool{2: true, 4: true, 13: true, 14: true, 15: true, 17: true}[code]
		if got := logged(t, telemetry.AccessLogConfig{}, rec); strings.Contains(got, `"level":"WARN"`) != warns {
			t.Errorf("code %d: %s", code, got)
		}
	}
}

// TestTextsAreOneAttribute: a text of a client that looks like an attribute is quoted.
func TestTextsAreOneAttribute(t *testing.T) {
	t.Parallel()
	rec := sample()
	rec.Call.Tool = "a=b"
	if got := logged(t, telemetry.AccessLogConfig{Text: true}, rec); !strings.Contains(got, ` tool="a=b" `) {
		t.Error(got)
	}
}

// TestQuietCallsAreCounted, and not logged.
func TestQuietCallsAreCounted(t *testing.T) {
	t.Parallel()
	m := newMetrics(t, telemetry.MetricsConfig{})
	var out bytes.Buffer
	log := telemetry.NewAccessLog(&out, telemetry.AccessLogConfig{})
	rec := sample()
	rec.Capability, rec.Quiet = m.Capability("weather"), true
	telemetry.NewRecorder(m, log).Record(rec)
	check.Must(t, log.Close())
	calls := scrape(t, m)[`capgate_calls_total{capability="weather",code="OK",method="Invoke",outcome="success"}`]
	if out.Len() > 0 || calls != "1" {
		t.Errorf("%q calls, and the log %s", calls, &out)
	}
}

func FuzzLine(f *testing.F) {
	f.Add("get_weather", "id", int64(1234567), int64(0))
	f.Add("\xf0\x9f\"\u2028", "a=b c", int64(1e18), int64(999999999))
	f.Fuzz(func(t *testing.T, tool, id string, took, at int64) {
		rec := sample()
		rec.Call.Tool, rec.RequestID = tool, id
		rec.Ended = time.Duration(took&(1<<52-1) + 1)
		rec.Started = time.Unix(at&(1<<33-1), at&(1<<29-1)).UTC()
		for _, text := range []bool{false, true} {
			got := logged(t, telemetry.AccessLogConfig{Text: text}, rec)
			if want := bySlog(t, rec, slog.LevelInfo, "OK", text); got != want {
				t.Errorf("got  %swant %s", got, want)
			}
			if !text && !json.Valid([]byte(got)) {
				t.Errorf("not JSON: %s", got)
			}
		}
	})
}

// gate is a sink that blocks every Write until it is opened.
type gate struct {
	open   chan struct{}
	writes chan []byte
}

func (g *gate) Write(p []byte) (int, error) {
	g.writes <- bytes.Clone(p)
	<-g.open
	return len(p), nil
}

func TestSlowSinkDropsAndNeverBlocks(t *testing.T) {
	t.Parallel()
	check.Bubble(t, func(t *testing.T) {
		sink := &gate{open: make(chan struct{}), writes: make(chan []byte, 1000)}
		log := telemetry.NewAccessLog(sink, telemetry.AccessLogConfig{MaxPending: 64 << 10})
		r := telemetry.NewRecorder(newMetrics(t, telemetry.MetricsConfig{Log: log}), log)
		const calls = 5000
		for range calls {
			r.Record(sample())
		}
		synctest.Wait() // the log's goroutine hangs in Write
		for range calls {
			r.Record(sample())
		}
		dropped := log.Dropped()
		if dropped == 0 {
			t.Fatal("nothing was dropped")
		}
		close(sink.open)
		check.Must(t, log.Close())
		close(sink.writes)
		var lines, most int
		for p := range sink.writes {
			if p[len(p)-1] != '\n' {
				t.Error("a write ends inside a line")
			}
			lines += bytes.Count(p, []byte("\n"))
			most = max(most, len(p))
		}
		if uint64(lines)+dropped != 2*calls || most > 64<<10 {
			t.Errorf("%d written + %d dropped of %d; largest write %d", lines, dropped, 2*calls, most)
		}
	})
}

func TestLinesAreWrittenInTime(t *testing.T) {
	t.Parallel()
	check.Bubble(t, func(t *testing.T) {
		sink := &gate{open: make(chan struct{}), writes: make(chan []byte, 1000)}
		close(sink.open)
		log := telemetry.NewAccessLog(sink, telemetry.AccessLogConfig{})
		r := telemetry.NewRecorder(newMetrics(t, telemetry.MetricsConfig{}), log)
		for range 3 {
			r.Record(sample())
			start := time.Now()
			<-sink.writes
			if waited := time.Since(start); waited != 100*time.Millisecond {
				t.Errorf("one line waited %v", waited)
			}
		}
		for range 1000 {
			r.Record(sample())
		}
		start := time.Now()
		if p := <-sink.writes; len(p) < 32<<10 || time.Since(start) != 0 {
			t.Errorf("%d bytes after %v", len(p), time.Since(start))
		}
		if err := errors.Join(log.Close(), log.Close()); err != nil {
			t.Error(err)
		}
		r.Record(sample())
		if log.Dropped() != 1 {
			t.Errorf("%d lines dropped after Close, want 1", log.Dropped())
		}
	})
}

type brokenSink struct{ io.Writer }

func (brokenSink) Write([]byte) (int, error) { return 0, io.ErrClosedPipe }

func TestBrokenSinkIsCounted(t *testing.T) {
	t.Parallel()
	log := telemetry.NewAccessLog(brokenSink{}, telemetry.AccessLogConfig{})
	r := telemetry.NewRecorder(newMetrics(t, telemetry.MetricsConfig{}), log)
	for range 7 {
		r.Record(sample())
	}
	if err := log.Close(); !errors.Is(err, io.ErrClosedPipe) || log.Dropped() != 7 {
		t.Errorf("Close: %v, dropped %d", err, log.Dropped())
	}
}
