package telemetry

import (
	"sync/atomic"

	"github.com/prometheus/client_golang/prometheus"
)

// watched asks somebody, whenever somebody scrapes, what there is to tell. Before it knows whom to
// ask it tells nothing.
type watched[T any] struct {
	metrics
	ask  atomic.Pointer[func() T]
	tell func(told, T)
}

// Collect implements prometheus.Collector.
func (w *watched[T]) Collect(ch chan<- prometheus.Metric) {
	if ask := w.ask.Load(); ask != nil {
		w.tell(ch, (*ask)())
	}
}

// metrics are some whose names begin alike.
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

// told is where one scrape's values go.
type told chan<- prometheus.Metric

func (t told) count(desc *prometheus.Desc, n int64, labels ...string) {
	t <- prometheus.MustNewConstMetric(desc, prometheus.CounterValue, float64(n), labels...)
}

func (t told) gauge(desc *prometheus.Desc, v float64, labels ...string) {
	t <- prometheus.MustNewConstMetric(desc, prometheus.GaugeValue, v, labels...)
}

// flag is a gauge that is 1 or 0.
func (t told) flag(desc *prometheus.Desc, set bool, labels ...string) {
	v := 0.0
	if set {
		v = 1
	}
	t.gauge(desc, v, labels...)
}
