package telemetry

// MemoryPool is the state of a pool of memory.
type MemoryPool struct {
	Name        string
	Used, Limit int64 // bytes
	Refused     int64 // since the start
}

// WatchMemory calls ask at every scrape. It may be called from any goroutine.
func (m *Metrics) WatchMemory(ask func() []MemoryPool) { m.memory.read.Store(&ask) }

// newMemory returns the collector. No label has a value that a caller can choose.
func newMemory() *polled[[]MemoryPool] {
	m := metrics{prefix: "capgate_"}
	used := m.add("memory_bytes", "Bytes reserved by calls, requests and connections, by pool; memory is the total.",
		"pool")
	limit := m.add("memory_limit_bytes", "Maximum bytes of a pool.", "pool")
	refused := m.add("memory_refused_total",
		"Reservations that failed because a tenant, or an unauthenticated address, had used its share of a pool.", "pool")
	return &polled[[]MemoryPool]{metrics: m, emit: func(t emitter, pools []MemoryPool) {
		for _, p := range pools {
			t.gauge(used, float64(p.Used), p.Name)
			t.gauge(limit, float64(p.Limit), p.Name)
			t.count(refused, p.Refused, p.Name)
		}
	}}
}
