package telemetry

import (
	"errors"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/capgate/capgate/internal/lib/metric"
	"github.com/capgate/capgate/internal/lib/untrusted"
)

// Add serves the metrics of sources.
func (m *Metrics) Add(sources ...metric.Source) error {
	var failed []error
	for _, s := range sources {
		set := s.Metrics()
		c := &source{set: set, since: m.since, metrics: metrics{},
			descs: make(map[*metric.Desc]*prometheus.Desc, len(set.Descs))}
		for _, d := range set.Descs {
			c.descs[d] = c.add(d.Name, d.Help, d.Labels...)
		}
		failed = append(failed, m.registry.Register(c))
	}
	return errors.Join(failed...)
}

// source collects the metrics of a metric.Source.
type source struct {
	metrics
	set   *metric.Set
	since time.Time // start of the counters
	descs map[*metric.Desc]*prometheus.Desc
}

// Collect implements prometheus.Collector.
func (s *source) Collect(ch chan<- prometheus.Metric) { s.set.Read(scrape{s, emitter(ch)}) }

// scrape is one scrape of a source.
type scrape struct {
	of *source
	to emitter
}

var _ metric.Writer = scrape{}

// Count implements metric.Writer.
func (s scrape) Count(d *metric.Desc, n int64, labels ...string) {
	s.to.count(s.of.descs[d], n, valid(labels)...)
}

// Gauge implements metric.Writer.
func (s scrape) Gauge(d *metric.Desc, v float64, labels ...string) {
	s.to.gauge(s.of.descs[d], v, valid(labels)...)
}

// Flag implements metric.Writer.
func (s scrape) Flag(d *metric.Desc, set bool, labels ...string) {
	s.to.flag(s.of.descs[d], set, valid(labels)...)
}

// Histogram implements metric.Writer.
func (s scrape) Histogram(d *metric.Desc, n uint64, sum float64, atMost map[float64]uint64, labels ...string) {
	s.to <- prometheus.MustNewConstHistogram(s.of.descs[d], n, sum, atMost, valid(labels)...)
}

// valid makes labels valid UTF-8, which Prometheus requires.
func valid(labels []string) []string {
	for i := range labels {
		labels[i] = untrusted.UTF8(labels[i])
	}
	return labels
}
