package telemetry

// MemoryPool is a part of what the process gives out, at one moment.
type MemoryPool struct {
	Name        string
	Used, Limit int64 // bytes
	Refused     int64 // since the start
}

// WatchMemory lets every scrape report what ask answers. It may be called from any goroutine.
func (m *Metrics) WatchMemory(ask func() []MemoryPool) { m.memory.read.Store(&ask) }

// newMemory's metrics have no label that a caller could choose.
func newMemory() *polled[[]MemoryPool] {
	m := metrics{prefix: "capgate_"}
	used := m.add("memory_bytes", "Bytes that calls, requests and connections have, by pool; memory is all of them.",
		"pool")
	limit := m.add("memory_limit_bytes", "Bytes that they may have at the most.", "pool")
	refused := m.add("memory_refused_total",
		"How often a tenant, or an address of callers that are not known yet, had its share of a pool already.", "pool")
	return &polled[[]MemoryPool]{metrics: m, emit: func(t emitter, pools []MemoryPool) {
		for _, p := range pools {
			t.gauge(used, float64(p.Used), p.Name)
			t.gauge(limit, float64(p.Limit), p.Name)
			t.count(refused, p.Refused, p.Name)
		}
	}}
}
