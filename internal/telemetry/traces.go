package telemetry

// Traces is what is to be told of spans when somebody scrapes. All but Waiting only grow.
type Traces struct {
	Exported int64 // the collector has them
	Full     int64 // dropped: there was no room
	Failed   int64 // dropped: the collector did not take them
	Waiting  int   // for the collector
}

// WatchTraces lets every scrape report what ask answers. It may be called from any goroutine.
func (m *Metrics) WatchTraces(ask func() Traces) { m.traces.read.Store(&ask) }

func newTraces() *polled[Traces] {
	m := metrics{prefix: "capgate_trace_"}
	exported := m.add("spans_exported_total", "Spans that the collector has taken.")
	dropped := m.add("spans_dropped_total",
		"Spans that were lost: there was no room (full), or the collector did not take them (failed).", "reason")
	waiting := m.add("spans_waiting", "Spans that wait for the collector.")
	return &polled[Traces]{metrics: m, emit: func(t emitter, s Traces) {
		t.count(exported, s.Exported)
		t.count(dropped, s.Full, "full")
		t.count(dropped, s.Failed, "failed")
		t.gauge(waiting, float64(s.Waiting))
	}}
}
