package telemetry

import (
	"sync/atomic"

	"github.com/capgate/capgate/internal/call"
)

// numMethods is the number of call.Method values that have series of their own.
const numMethods = int(call.DownloadOutputArtifact) + 1

// CapabilityMetrics is the handle of one capability's series. Resolve it once, when a routing table is built,
// and pass it to every Record, so that counting needs no lookup.
//
// Every counter is a row of cells for the few goroutines that count at the same time, so that they do not share
// a cache line. A scrape sums the row. A method and code that never occurred cost a nil pointer.
type CapabilityMetrics struct {
	name      string
	inFlight  []paddedInt
	methods   [numMethods]atomic.Pointer[methodSeries]
	exemplars [numCodes]atomic.Pointer[exemplars] // nil: no such call was traced
	shadow    atomic.Pointer[[]differences]       // a row, allocated when candidate rules first differ
	labels    [numKinds]atomic.Pointer[labels]    // nil: of the unknown capability
}

type methodSeries [numCodes]atomic.Pointer[series]

// series is the row of cells of one method and code.
type series []counters

// counters holds the counts of one goroutine. It fills whole cache lines.
type counters struct {
	outcomes [numOutcomes]atomic.Int64
	bytesIn  atomic.Int64
	bytesOut atomic.Int64
	took     latencies
	_        [48]byte
}

type paddedInt struct {
	atomic.Int64
	_ [56]byte
}

// newCapabilityMetrics returns a handle with rows of that many cells, a power of two.
func newCapabilityMetrics(name string, cells int) *CapabilityMetrics {
	c := &CapabilityMetrics{name: name, inFlight: make([]paddedInt, cells)}
	for of := range c.labels {
		if name != "" {
			c.labels[of].Store(&labels{other: &labelled{}})
		}
	}
	return c
}

// Name returns the capability, "" for nil and for calls of unknown capabilities. It is never a caller's word.
func (c *CapabilityMetrics) Name() string {
	if c == nil {
		return ""
	}
	return c.name
}

func (c *CapabilityMetrics) addInFlight(shard uint32, n int64) {
	c.inFlight[int(shard)&(len(c.inFlight)-1)].Add(n)
}

// count adds a finished call.
func (c *CapabilityMetrics) count(rec *Record) {
	took := rec.Took()
	code, bucket := KnownCode(rec.Code), bucketOf(bucketBounds[:], took)
	row := c.series(rec.Call.Method, code)
	cell := &row[int(rec.Shard)&(len(row)-1)]
	cell.outcomes[min(rec.Outcome, numOutcomes-1)].Add(1)
	cell.bytesIn.Add(rec.BytesIn)
	cell.bytesOut.Add(rec.BytesOut)
	cell.took.count(took, bucket)
	if rec.Traced {
		c.keep(rec, code, bucket)
	}
	if rec.Decision.Differs {
		c.differ(rec)
	}
	c.countLabelled(rec)
}

// series returns the row of a method and code, and allocates it the first time.
func (c *CapabilityMetrics) series(method call.Method, code uint32) series {
	if int(method) >= numMethods {
		method = call.Other
	}
	codes := c.methods[method].Load()
	if codes == nil {
		c.methods[method].CompareAndSwap(nil, new(methodSeries))
		codes = c.methods[method].Load()
	}
	row := codes[code].Load()
	if row == nil {
		fresh := make(series, len(c.inFlight))
		codes[code].CompareAndSwap(nil, &fresh)
		row = codes[code].Load()
	}
	return *row
}
