package telemetry_test

import (
	"io"
	"log/slog"
	"runtime"
	"sync/atomic"
	"testing"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/capgate/capgate/internal/telemetry"
)

const yieldEvery = 64

// BenchmarkRecord is the step "record" of one call, from one goroutine and from
// all processors at once. It yields now and then, as a connection's reader does
// when its socket is empty: lines that find no writer are dropped, and a dropped
// line is cheaper than a kept one.
func BenchmarkRecord(b *testing.B) {
	for _, bb := range []struct {
		name      string
		log, text bool
	}{{"metrics", false, false}, {"metrics+json", true, false}, {"metrics+text", true, true}} {
		b.Run(bb.name, func(b *testing.B) {
			var log *telemetry.AccessLog
			if bb.log {
				log = telemetry.NewAccessLog(io.Discard, telemetry.AccessLogConfig{Text: bb.text})
				b.Cleanup(func() {
					if err := log.Close(); err != nil {
						b.Error(err)
					}
					b.Logf("%d lines dropped", log.Dropped())
				})
			}
			m := newMetrics(b, telemetry.MetricsConfig{Log: log, Tenants: 1})
			r := telemetry.NewRecorder(m, log)
			rec := sample()
			rec.Capability, rec.Tenant = m.Capability("weather"), m.Tenant("acme")
			b.Run("one", func(b *testing.B) {
				b.ReportAllocs()
				for i := 0; b.Loop(); i++ {
					begin(r, rec)
					r.Record(rec)
					if i%yieldEvery == 0 {
						runtime.Gosched()
					}
				}
			})
			var shard atomic.Uint32
			b.Run("parallel", func(b *testing.B) {
				b.ReportAllocs()
				b.RunParallel(func(pb *testing.PB) {
					rec := sample()
					rec.Capability, rec.Tenant, rec.Shard = m.Capability("weather"), m.Tenant("acme"), shard.Add(1)
					for i := 0; pb.Next(); i++ {
						begin(r, rec)
						r.Record(rec)
						if i%yieldEvery == 0 {
							runtime.Gosched()
						}
					}
				})
			})
		})
	}
}

// BenchmarkClientGolang measures the metrics of a call with client_golang's own counters, already looked up.
func BenchmarkClientGolang(b *testing.B) {
	calls := prometheus.NewCounterVec(prometheus.CounterOpts{Name: "c"}, []string{"l"}).WithLabelValues("x")
	in := prometheus.NewCounterVec(prometheus.CounterOpts{Name: "i"}, []string{"l"}).WithLabelValues("x")
	out := prometheus.NewCounterVec(prometheus.CounterOpts{Name: "o"}, []string{"l"}).WithLabelValues("x")
	inFlight := prometheus.NewGaugeVec(prometheus.GaugeOpts{Name: "g"}, []string{"l"}).WithLabelValues("x")
	latency := prometheus.NewHistogramVec(prometheus.HistogramOpts{Name: "h"}, []string{"l"}).WithLabelValues("x")
	rec := sample()
	one := func() {
		inFlight.Inc()
		inFlight.Dec()
		calls.Inc()
		in.Add(float64(rec.BytesIn))
		out.Add(float64(rec.BytesOut))
		latency.Observe(rec.Ended.Seconds())
	}
	b.Run("one", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			one()
		}
	})
	b.Run("parallel", func(b *testing.B) {
		b.ReportAllocs()
		b.RunParallel(func(pb *testing.PB) {
			for pb.Next() {
				one()
			}
		})
	})
}

// BenchmarkSlog measures the access log's line written with slog.
func BenchmarkSlog(b *testing.B) {
	rec := sample()
	logger := slog.New(slog.NewJSONHandler(io.Discard, nil))
	b.ReportAllocs()
	for b.Loop() {
		logger.LogAttrs(b.Context(), slog.LevelInfo, "call",
			slog.String("method", rec.Call.Method.String()), slog.String("dialect", rec.Call.Dialect.String()),
			slog.String("capability", rec.Call.Capability), slog.String("tool", rec.Call.Tool),
			slog.String("backend", rec.Backend), slog.String("code", "OK"),
			slog.String("outcome", rec.Outcome.String()), slog.Int64("bytes_in", rec.BytesIn),
			slog.Int64("bytes_out", rec.BytesOut), slog.Float64("duration_ms", rec.Ended.Seconds()*1000),
			slog.Float64("forwarded_ms", rec.Forwarded.Seconds()*1000),
			slog.Float64("first_byte_ms", rec.FirstByte.Seconds()*1000), slog.String("tenant", rec.Call.Tenant))
	}
}
