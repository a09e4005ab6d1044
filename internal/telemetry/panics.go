package telemetry

import "github.com/capgate/capgate/internal/lib/recovery"

// newPanics returns the collector of recovered panics, which package recovery counts.
func newPanics() *polled[map[string]int64] {
	m := metrics{prefix: "capgate_"}
	total := m.add("panics_total", "Panics that ended one call, one round of a loop or one shard's connections. "+
		"Each is a defect: the log has its stack.", "goroutine")
	w := &polled[map[string]int64]{metrics: m, emit: func(t emitter, counts map[string]int64) {
		for goroutine, n := range counts {
			t.count(total, n, goroutine)
		}
	}}
	ask := recovery.Counts
	w.read.Store(&ask)
	return w
}
