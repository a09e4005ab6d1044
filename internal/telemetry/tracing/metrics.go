package tracing

import "github.com/capgate/capgate/internal/lib/metric"

// Stats counts spans. All but Waiting only grow.
type Stats struct {
	Exported int64 // accepted by the collector
	Full     int64 // dropped because the queue was full
	Failed   int64 // dropped because the collector did not accept them
	Waiting  int   // in the queue
}

// Stats returns the current counters.
func (t *Tracer) Stats() Stats {
	q := t.queue
	return Stats{q.exported.Load(), q.full.Load(), q.failed.Load(), int(q.waiting.Load())}
}

// Metrics implements metric.Source.
func (t *Tracer) Metrics() *metric.Set {
	m := metric.New("capgate_trace_")
	exported := m.Add("spans_exported_total", "Spans that the collector has accepted.")
	dropped := m.Add("spans_dropped_total",
		"Spans that were dropped: the queue was full (full), or the collector did not accept them (failed).", "reason")
	waiting := m.Add("spans_waiting", "Spans that wait for the collector.")
	m.Read = func(w metric.Writer) {
		s := t.Stats()
		w.Count(exported, s.Exported)
		w.Count(dropped, s.Full, "full")
		w.Count(dropped, s.Failed, "failed")
		w.Gauge(waiting, float64(s.Waiting))
	}
	return m
}
