package telemetry

import (
	"encoding/hex"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

// TraceID is the id of a call's trace. Zero: it has none.
type TraceID [16]byte

// IsZero reports whether there is no trace.
func (id TraceID) IsZero() bool { return id == TraceID{} }

// Text returns 32 hexadecimal digits.
func (id TraceID) Text() string { return hex.EncodeToString(id[:]) }

// exemplars are the newest traced calls by bucket of the classic histogram.
type exemplars [numBuckets]atomic.Pointer[exemplar]

// exemplar is one call. It is immutable.
type exemplar struct {
	trace TraceID
	took  time.Duration
	at    time.Time
}

// keep stores a traced call as the newest of its bucket. It allocates, as a trace does.
func (c *CapabilityMetrics) keep(rec *Record, code uint32, bucket int) {
	all := c.exemplars[code].Load()
	if all == nil {
		c.exemplars[code].CompareAndSwap(nil, new(exemplars))
		all = c.exemplars[code].Load()
	}
	all[bucket].Store(&exemplar{trace: rec.Trace, took: max(0, rec.Ended-rec.Held), at: rec.Started.Add(rec.Ended)})
}

// list returns the exemplars with the label trace_id.
func (all *exemplars) list() (list []prometheus.Exemplar) {
	if all == nil {
		return nil
	}
	for i := range all {
		if e := all[i].Load(); e != nil {
			labels := prometheus.Labels{"trace_id": hex.EncodeToString(e.trace[:])}
			list = append(list, prometheus.Exemplar{Value: e.took.Seconds(), Labels: labels, Timestamp: e.at})
		}
	}
	return list
}
