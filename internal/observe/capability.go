package observe

import (
	"sync/atomic"
	"time"

	"github.com/capgate/capgate/internal/call"
)

// numMethods is the number of call.Method values that have series of their own.
const numMethods = int(call.DownloadOutputArtifact) + 1

// bucketBounds are the upper bounds of the latency histogram: from half a
// millisecond, below which scheduling is all there is to see, to five minutes,
// beyond which a call is a session.
var bucketBounds = [...]time.Duration{
	500 * time.Microsecond, time.Millisecond, 2500 * time.Microsecond, 5 * time.Millisecond, 10 * time.Millisecond,
	25 * time.Millisecond, 50 * time.Millisecond, 100 * time.Millisecond, 250 * time.Millisecond, 500 * time.Millisecond,
	time.Second, 2500 * time.Millisecond, 5 * time.Second, 10 * time.Second, 30 * time.Second,
	time.Minute, 2 * time.Minute, 5 * time.Minute,
}

// CapabilityMetrics is the handle of one capability's series. Resolve it once,
// when a routing table is built, and hand it to every Record: counting through it
// looks nothing up.
//
// Every counter is a row of cells, one for each of a few goroutines that count at
// the same time, so that they do not fight over a cache line; a scrape sums the
// row. A method and code that never occurred cost a nil pointer.
type CapabilityMetrics struct {
	name     string
	inFlight []paddedInt
	methods  [numMethods]atomic.Pointer[methodSeries]
	shadow   atomic.Pointer[[]differences] // a row, made when candidate rules first differ
}

type methodSeries [numCodes]atomic.Pointer[series]

// series is the row of cells of one method and code.
type series []cell

// cell holds what one goroutine counted. It fills whole cache lines.
type cell struct {
	outcomes [numOutcomes]atomic.Int64
	bytesIn  atomic.Int64
	bytesOut atomic.Int64
	nanos    atomic.Int64
	buckets  [len(bucketBounds) + 1]atomic.Int64 // not cumulative; the last is +Inf
	_        [48]byte
}

type paddedInt struct {
	atomic.Int64
	_ [56]byte
}

// newCapabilityMetrics makes a handle with rows of that many cells, a power of two.
func newCapabilityMetrics(name string, cells int) *CapabilityMetrics {
	return &CapabilityMetrics{name: name, inFlight: make([]paddedInt, cells)}
}

func (c *CapabilityMetrics) addInFlight(shard uint32, n int64) {
	c.inFlight[int(shard)&(len(c.inFlight)-1)].Add(n)
}

// count adds a finished call.
func (c *CapabilityMetrics) count(rec *Record) {
	row := c.series(rec.Call.Method, clampCode(rec.Code))
	cell := &row[int(rec.Shard)&(len(row)-1)]
	cell.outcomes[min(rec.Outcome, numOutcomes-1)].Add(1)
	cell.bytesIn.Add(rec.BytesIn)
	cell.bytesOut.Add(rec.BytesOut)
	cell.nanos.Add(int64(rec.Ended))
	cell.buckets[bucketOf(rec.Ended)].Add(1)
	if rec.Decision.Differs {
		c.differ(rec)
	}
}

// series finds the row of a method and code, and makes it the first time.
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

// bucketOf walks the bounds from below: most calls end in the first few.
func bucketOf(d time.Duration) int {
	for i, bound := range &bucketBounds {
		if d <= bound {
			return i
		}
	}
	return len(bucketBounds)
}
