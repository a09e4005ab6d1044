package telemetry

// WatchUpstreams calls ask at every scrape for the number of open connections to backends. It may be called
// from any goroutine.
func (m *Metrics) WatchUpstreams(ask func() int) { m.upstreams.read.Store(&ask) }

func newUpstreams() *polled[int] {
	m := metrics{prefix: "capgate_upstream_"}
	open := m.add("connections", "Open connections to backends.")
	return &polled[int]{metrics: m, emit: func(t emitter, n int) { t.gauge(open, float64(n)) }}
}
