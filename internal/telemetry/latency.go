package telemetry

import (
	"math"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	dto "github.com/prometheus/client_model/go"
)

// bucketBounds are the upper bounds of the classic histogram. Below half a millisecond, scheduling dominates.
// Beyond five minutes, a call is a session.
var bucketBounds = [...]time.Duration{
	500 * time.Microsecond, time.Millisecond, 2500 * time.Microsecond, 5 * time.Millisecond, 10 * time.Millisecond,
	25 * time.Millisecond, 50 * time.Millisecond, 100 * time.Millisecond, 250 * time.Millisecond,
	500 * time.Millisecond, time.Second, 2500 * time.Millisecond, 5 * time.Second, 10 * time.Second, 30 * time.Second,
	time.Minute, 2 * time.Minute, 5 * time.Minute,
}

const numBuckets = len(bucketBounds) + 1

// The native histogram has 2^schema buckets to an octave, so each is 9% wider than the one below. The zero
// bucket has durations up to 2^(minExp-1) s, 15 µs, and the last one has those above 2^maxExp s, 9 h.
const (
	schema        = 3
	perOctave     = 1 << schema
	minExp        = -15
	maxExp        = 15
	numOctaves    = maxExp - minExp + 1
	zeroThreshold = 1.0 / (1 << (1 - minExp)) // seconds
)

// octaveBounds are the upper bounds of an octave's buckets but the last, 2^(1/8) apart, as fractions of
// math.Frexp.
var octaveBounds = [perOctave - 1]float64{
	0.5452538663326288, 0.5946035575013605, 0.6484197773255048, 0.7071067811865475, 0.7711054127039704,
	0.8408964152537144, 0.9170040432046711,
}

// latencies holds the counts of one goroutine: a classic histogram, for scrapers that support no other, and a
// native one.
type latencies struct {
	nanos   atomic.Int64
	buckets [numBuckets]atomic.Int64 // not cumulative; the last is +Inf
	zero    atomic.Int64
	octaves [numOctaves]atomic.Pointer[octave] // nil: no counts
}

// octave holds the native buckets up to a power of two. It fills a cache line.
type octave [perOctave]atomic.Int64

// count adds a latency. It counts the native histogram first, and a scrape reads it last: the number of calls
// comes from it, and must not be below that of the classic one.
func (l *latencies) count(d time.Duration, bucket int) {
	l.nanos.Add(int64(d))
	l.native(d.Seconds()).Add(1)
	l.buckets[bucket].Add(1)
}

// native returns the native bucket of a latency, and allocates its octave the first time.
func (l *latencies) native(seconds float64) *atomic.Int64 {
	if seconds <= zeroThreshold {
		return &l.zero
	}
	fraction, exp := math.Frexp(seconds)
	switch {
	case exp > maxExp:
		fraction, exp = 1, maxExp
	case fraction == 0.5: // a power of two is the upper bound of its octave
		fraction, exp = 1, exp-1
	}
	at := &l.octaves[exp-minExp]
	buckets := at.Load()
	if buckets == nil {
		at.CompareAndSwap(nil, new(octave))
		buckets = at.Load()
	}
	i := 0
	for i < len(octaveBounds) && fraction > octaveBounds[i] {
		i++
	}
	return &buckets[i]
}

// bucketOf walks the bounds from below: most calls end in the first few.
func bucketOf(bounds []time.Duration, d time.Duration) int {
	for i, bound := range bounds {
		if d <= bound {
			return i
		}
	}
	return len(bounds)
}

// latency is the sum of the counts of several goroutines, with exemplars.
type latency struct {
	nanos     int64
	buckets   [numBuckets]uint64
	zero      uint64
	native    map[int]int64 // by Prometheus' index: from there down to 2^(index/2^schema) s
	exemplars []prometheus.Exemplar
}

func (l *latency) add(from *latencies) {
	for b := range from.buckets {
		l.buckets[b] += uint64(from.buckets[b].Load())
	}
	l.nanos += from.nanos.Load()
	l.zero += uint64(from.zero.Load())
	for o := range from.octaves {
		buckets := from.octaves[o].Load()
		if buckets == nil {
			continue
		}
		if l.native == nil {
			l.native = map[int]int64{}
		}
		for i := range buckets {
			if n := buckets[i].Load(); n > 0 {
				l.native[(o+minExp-1)*perOctave+i+1] += n
			}
		}
	}
}

func (l *latency) count() uint64 {
	n := l.zero
	for _, in := range l.native {
		n += uint64(in)
	}
	return n
}

// metric returns both histograms as one metric.
func (l *latency) metric(bounds []time.Duration, desc *prometheus.Desc, since time.Time,
	labels ...string) prometheus.Metric {
	seconds := time.Duration(l.nanos).Seconds()
	native := prometheus.MustNewConstNativeHistogram(desc, l.count(), seconds, l.native, nil, l.zero, schema,
		zeroThreshold, since, labels...)
	both := histogram{Metric: native, classic: make([]*dto.Bucket, len(bounds))}
	var below uint64
	for i, bound := range bounds {
		below += l.buckets[i]
		both.classic[i] = &dto.Bucket{CumulativeCount: new(below), UpperBound: new(bound.Seconds())}
	}
	if len(l.exemplars) == 0 {
		return both
	}
	return prometheus.MustNewMetricWithExemplars(both, l.exemplars...)
}

// histogram is a native histogram with classic buckets.
type histogram struct {
	prometheus.Metric
	classic []*dto.Bucket
}

// Write implements prometheus.Metric.
func (h histogram) Write(to *dto.Metric) error {
	if err := h.Metric.Write(to); err != nil {
		return err
	}
	to.Histogram.Bucket = h.classic
	return nil
}
