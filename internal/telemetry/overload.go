package telemetry

// Overload is how much of what the process can take is in use: 1 is all of it, 0 where
// there is no limit.
type Overload struct{ InFlight, Memory, Delay, Bodies float64 }

// WatchOverload lets every scrape report what ask answers. It may be called from any goroutine.
func (m *Metrics) WatchOverload(ask func() Overload) { m.overload.read.Store(&ask) }

func newOverload() *polled[Overload] {
	m := metrics{prefix: "capgate_"}
	used := m.add("overload", "How much of its own limits the process uses: from 1 on calls are turned away. Of "+
		"is in_flight, memory, delay or bodies.", "of")
	return &polled[Overload]{metrics: m, emit: func(t emitter, o Overload) {
		t.gauge(used, o.InFlight, "in_flight")
		t.gauge(used, o.Memory, "memory")
		t.gauge(used, o.Delay, "delay")
		t.gauge(used, o.Bodies, "bodies")
	}}
}
