package telemetry

import (
	"slices"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/capgate/capgate/internal/lib/untrusted"
)

// OtherLabel is the label of all tools or backends of a capability without one of their own, and of tools that it does
// not have.
const OtherLabel = "other"

// FewBounds are the upper bounds of the histograms of which there are many.
var FewBounds = [...]time.Duration{
	5 * time.Millisecond, 10 * time.Millisecond, 25 * time.Millisecond, 50 * time.Millisecond, 100 * time.Millisecond,
	250 * time.Millisecond, 500 * time.Millisecond, time.Second, 2500 * time.Millisecond, 10 * time.Second,
	time.Minute,
}

// NumFew is the number of buckets with those bounds. The last has no upper bound.
const NumFew = len(FewBounds) + 1

// FewBucket returns the bucket of a duration.
func FewBucket(d time.Duration) int {
	for i, bound := range &FewBounds {
		if d <= bound {
			return i
		}
	}
	return len(FewBounds)
}

// kind names a part of a capability that has series of its own, such as a tool.
type kind uint8

const (
	tools kind = iota
	backends
	numKinds
)

var kindNames = [numKinds]string{"tool", "backend"}

// labelled holds the counts of a tool or backend. Calls that never reached a backend are not in the durations.
type labelled struct {
	results [NumResults]atomic.Int64
	nanos   atomic.Int64
	buckets [NumFew]atomic.Int64 // not cumulative
}

func (s *labelled) count(rec *Record, result Result) {
	s.results[result].Add(1)
	if rec.Backend != "" {
		took := rec.Took()
		s.nanos.Add(int64(took))
		s.buckets[FewBucket(took)].Add(1)
	}
}

// labels holds the tools or backends of a capability that have a label. It is immutable.
type labels struct {
	byName map[string]*labelled
	other  *labelled
}

// series returns that of a name. Names that callers made up have that of OtherLabel.
func (l *labels) series(name string) *labelled {
	if s := l.byName[name]; s != nil {
		return s
	}
	return l.other
}

// SetTools replaces the tools of a capability that have a label. Only the first MetricsConfig.Tools of all capabilities
// have one. The capability and the names must be configured, declared or discovered, never a caller's.
func (m *Metrics) SetTools(capability string, names []string) { m.setLabels(tools, capability, names) }

// SetBackends replaces the backends of a capability that have a label, as SetTools does.
func (m *Metrics) SetBackends(capability string, names []string) {
	m.setLabels(backends, capability, names)
}

func (m *Metrics) setLabels(of kind, capability string, names []string) {
	c := m.Capability(capability)
	m.mu.Lock()
	defer m.mu.Unlock()
	before := c.labels[of].Load()
	if before == nil {
		return // the common series of unknown capabilities
	}
	free := &m.freeLabels[of]
	*free += len(before.byName)
	next := &labels{byName: make(map[string]*labelled, min(len(names), *free)), other: before.other}
	keep := func(known bool) {
		for _, name := range names {
			name = untrusted.UTF8(name)
			s := before.byName[name]
			if (s != nil) != known || name == "" || name == OtherLabel || *free == 0 || next.byName[name] != nil {
				continue
			}
			if s == nil {
				s = &labelled{}
			}
			next.byName[name] = s
			*free--
		}
	}
	keep(true) // those that have a label do not lose it to new ones
	keep(false)
	c.labels[of].Store(next)
}

// countLabelled adds a finished call to its tool and its backend.
func (c *CapabilityMetrics) countLabelled(rec *Record) {
	if rec.Call.Tool == "" && rec.Backend == "" {
		return
	}
	result := rec.Result()
	if l := c.labels[tools].Load(); l != nil && rec.Call.Tool != "" {
		l.series(rec.Call.Tool).count(rec, result)
	}
	if l := c.labels[backends].Load(); l != nil && rec.Backend != "" {
		l.series(rec.Backend).count(rec, result)
	}
}

// labelledMetrics are the metrics of tools or backends.
type labelledMetrics struct {
	metrics
	from *Metrics
	of   kind

	calls, duration *prometheus.Desc
}

func newLabelledMetrics(from *Metrics, of kind) *labelledMetrics {
	what := kindNames[of]
	m := &labelledMetrics{metrics: metrics{prefix: "capgate_" + what + "_"}, from: from, of: of}
	const other = " Those without a label of their own are other."
	m.calls = m.add("calls_total", "Finished calls of a "+what+", by result: answered, tool_error, asked: needs "+
		"approval, refused by the gateway, or failed."+other, "capability", what, "result")
	m.duration = m.add("duration_seconds", "Time of calls that reached a backend, by "+what+", without the time for "+
		"which they waited for a person's approval."+other, "capability", what)
	return m
}

// Collect implements prometheus.Collector.
func (m *labelledMetrics) Collect(ch chan<- prometheus.Metric) {
	for _, c := range m.from.capabilities() {
		l := c.labels[m.of].Load()
		if l == nil {
			continue
		}
		m.emit(ch, l.other, c.name, OtherLabel)
		for name, s := range l.byName {
			m.emit(ch, s, c.name, name)
		}
	}
}

// emit emits the series of a tool or backend that has been called.
func (m *labelledMetrics) emit(to emitter, s *labelled, names ...string) {
	names = slices.Clip(names)
	for r := range s.results {
		if n := s.results[r].Load(); n > 0 {
			to.count(m.calls, n, append(names, Result(r).String())...)
		}
	}
	var n uint64
	atMost := make(map[float64]uint64, NumFew)
	for i := range s.buckets {
		if n += uint64(s.buckets[i].Load()); i < len(FewBounds) {
			atMost[FewBounds[i].Seconds()] = n
		}
	}
	if n > 0 {
		to <- prometheus.MustNewConstHistogram(m.duration, n, time.Duration(s.nanos.Load()).Seconds(), atMost, names...)
	}
}
