package telemetry

import (
	"github.com/capgate/capgate/internal/lib/metric"
	"github.com/capgate/capgate/internal/lib/recovery"
)

// panics returns the metrics of recovered panics, which package recovery counts.
func panics() *metric.Set {
	m := metric.New("capgate_")
	total := m.Add("panics_total", "Panics that ended one call, one round of a loop or one shard's connections. "+
		"Each is a defect: the log has its stack.", "goroutine")
	m.Read = func(w metric.Writer) {
		for goroutine, n := range recovery.Counts() {
			w.Count(total, n, goroutine)
		}
	}
	return m
}
