package telemetry

import (
	"time"

	"github.com/capgate/capgate/internal/lib/metric"
)

// Histogram counts durations in the buckets of all of the gateway's durations. The zero value works. It is safe
// for concurrent use.
type Histogram struct{ counted latencies }

// Observe counts a duration.
func (h *Histogram) Observe(d time.Duration) { h.counted.count(d, bucketOf(d)) }

// Write writes the counts. A scrape also gets them as a native histogram.
func (h *Histogram) Write(w metric.Writer, d *metric.Desc, labels ...string) {
	var sum latency
	sum.add(&h.counted)
	if s, ok := w.(scrape); ok {
		s.to <- sum.metric(s.of.descs[d], s.of.since, valid(labels)...)
		return
	}
	w.Histogram(d, sum.count(), time.Duration(sum.nanos).Seconds(), nil, labels...)
}
