package telemetry

// Traces holds figures of spans. All but Waiting only grow.
type Traces struct {
	Exported int64 // accepted by the collector
	Full     int64 // dropped because the queue was full
	Failed   int64 // dropped because the collector did not accept them
	Waiting  int   // in the queue
}

// WatchTraces calls ask at every scrape. It may be called from any goroutine.
func (m *Metrics) WatchTraces(ask func() Traces) { m.traces.read.Store(&ask) }

func newTraces() *polled[Traces] {
	m := metrics{prefix: "capgate_trace_"}
	exported := m.add("spans_exported_total", "Spans that the collector has accepted.")
	dropped := m.add("spans_dropped_total",
		"Spans that were dropped: the queue was full (full), or the collector did not accept them (failed).", "reason")
	waiting := m.add("spans_waiting", "Spans that wait for the collector.")
	return &polled[Traces]{metrics: m, emit: func(t emitter, s Traces) {
		t.count(exported, s.Exported)
		t.count(dropped, s.Full, "full")
		t.count(dropped, s.Failed, "failed")
		t.gauge(waiting, float64(s.Waiting))
	}}
}
