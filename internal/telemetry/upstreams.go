package telemetry

// WatchUpstreams lets every scrape report ask's answer as the number of open connections to
// backends. It may be called from any goroutine.
func (m *Metrics) WatchUpstreams(ask func() int) { m.upstreams.ask.Store(&ask) }

func newUpstreams() *watched[int] {
	m := metrics{prefix: "capgate_upstream_"}
	open := m.add("connections", "Open connections to backends.")
	return &watched[int]{metrics: m, tell: func(t told, n int) { t.gauge(open, float64(n)) }}
}
