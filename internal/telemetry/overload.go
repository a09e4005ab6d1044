package telemetry

// Overload is the used fraction of each of the process's limits; 0 without a limit.
type Overload struct{ InFlight, Memory, Delay, Bodies float64 }

// WatchOverload calls ask at every scrape. It may be called from any goroutine.
func (m *Metrics) WatchOverload(ask func() Overload) { m.overload.read.Store(&ask) }

func newOverload() *polled[Overload] {
	m := metrics{prefix: "capgate_"}
	used := m.add("overload", "Used fraction of the process's own limits. From 1 on, calls are rejected. The label of "+
		"is in_flight, memory, delay or bodies.", "of")
	return &polled[Overload]{metrics: m, emit: func(t emitter, o Overload) {
		t.gauge(used, o.InFlight, "in_flight")
		t.gauge(used, o.Memory, "memory")
		t.gauge(used, o.Delay, "delay")
		t.gauge(used, o.Bodies, "bodies")
	}}
}
