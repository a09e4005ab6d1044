package telemetry

import (
	"time"

	"github.com/capgate/capgate/internal/lib/metric"
)

// Histogram counts durations. The zero value works. It is safe for concurrent use.
type Histogram struct {
	Bounds  []time.Duration // of the classic buckets, at most 18; nil means those of the gateway's calls
	counted latencies
}

// MCPBounds returns the bounds of the conventions for MCP.
func MCPBounds() []time.Duration {
	const ms = time.Millisecond
	return []time.Duration{10 * ms, 20 * ms, 50 * ms, 100 * ms, 200 * ms, 500 * ms, time.Second, 2 * time.Second,
		5 * time.Second, 10 * time.Second, 30 * time.Second, time.Minute, 2 * time.Minute, 5 * time.Minute}
}

// Transport returns the network.transport of a client, by OpenTelemetry's conventions.
func Transport(unix bool) string {
	if unix {
		return "unix"
	}
	return "tcp"
}

// Observe counts a duration.
func (h *Histogram) Observe(d time.Duration) { h.counted.count(d, bucketOf(h.bounds(), d)) }

func (h *Histogram) bounds() []time.Duration {
	if h.Bounds == nil {
		return bucketBounds[:]
	}
	return h.Bounds
}

// Write writes the counts. A scrape also gets them as a native histogram.
func (h *Histogram) Write(w metric.Writer, d *metric.Desc, labels ...string) {
	var sum latency
	sum.add(&h.counted)
	if s, ok := w.(scrape); ok {
		s.to <- sum.metric(h.bounds(), s.of.descs[d], s.of.since, valid(labels)...)
		return
	}
	w.Histogram(d, sum.count(), time.Duration(sum.nanos).Seconds(), nil, labels...)
}
