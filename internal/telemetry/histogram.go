package telemetry

import (
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

// Histogram counts durations in the buckets of all of the gateway's durations. The zero value works. It is safe
// for concurrent use.
type Histogram struct{ counted latencies }

// Observe counts a duration.
func (h *Histogram) Observe(d time.Duration) { h.counted.count(d, bucketOf(d)) }

// Metric returns the counts since a time.
func (h *Histogram) Metric(desc *prometheus.Desc, since time.Time, labels ...string) prometheus.Metric {
	var sum latency
	sum.add(&h.counted)
	return sum.metric(desc, since, labels...)
}
