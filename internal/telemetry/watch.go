package telemetry

import (
	"github.com/prometheus/client_golang/prometheus"
)

// metrics are metrics with a common prefix.
type metrics struct {
	prefix string
	all    []*prometheus.Desc
}

func (m *metrics) add(name, help string, labels ...string) *prometheus.Desc {
	desc := prometheus.NewDesc(m.prefix+name, help, labels, nil)
	m.all = append(m.all, desc)
	return desc
}

// Describe implements prometheus.Collector.
func (m *metrics) Describe(ch chan<- *prometheus.Desc) {
	for _, desc := range m.all {
		ch <- desc
	}
}

// emitter is the channel of one scrape.
type emitter chan<- prometheus.Metric

func (t emitter) count(desc *prometheus.Desc, n int64, labels ...string) {
	t <- prometheus.MustNewConstMetric(desc, prometheus.CounterValue, float64(n), labels...)
}

func (t emitter) gauge(desc *prometheus.Desc, v float64, labels ...string) {
	t <- prometheus.MustNewConstMetric(desc, prometheus.GaugeValue, v, labels...)
}

// flag emits a gauge that is 1 or 0.
func (t emitter) flag(desc *prometheus.Desc, set bool, labels ...string) {
	v := 0.0
	if set {
		v = 1
	}
	t.gauge(desc, v, labels...)
}
