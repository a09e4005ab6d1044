package observe

import (
	"sync/atomic"

	"github.com/prometheus/client_golang/prometheus"
)

// Traces is what is to be told of spans when somebody scrapes. All but Waiting only grow.
type Traces struct {
	Exported int64 // the collector has them
	Full     int64 // dropped: there was no room
	Failed   int64 // dropped: the collector did not take them
	Waiting  int   // for the collector
}

// WatchTraces lets every scrape report what ask answers. It may be called from any goroutine.
func (m *Metrics) WatchTraces(ask func() Traces) { m.traces.ask.Store(&ask) }

type tracesCollector struct {
	ask atomic.Pointer[func() Traces]

	exported, dropped, waiting *prometheus.Desc
}

func newTracesCollector() *tracesCollector {
	desc := func(name, help string, labels ...string) *prometheus.Desc {
		return prometheus.NewDesc("capgate_trace_"+name, help, labels, nil)
	}
	return &tracesCollector{
		exported: desc("spans_exported_total", "Spans that the collector has taken."),
		dropped:  desc("spans_dropped_total", "Spans that were lost: there was no room (full), or the collector did not take them (failed).", "reason"),
		waiting:  desc("spans_waiting", "Spans that wait for the collector."),
	}
}

// Describe implements prometheus.Collector.
func (c *tracesCollector) Describe(ch chan<- *prometheus.Desc) {
	for _, d := range []*prometheus.Desc{c.exported, c.dropped, c.waiting} {
		ch <- d
	}
}

// Collect implements prometheus.Collector.
func (c *tracesCollector) Collect(ch chan<- prometheus.Metric) {
	ask := c.ask.Load()
	if ask == nil {
		return
	}
	t := (*ask)()
	ch <- prometheus.MustNewConstMetric(c.exported, prometheus.CounterValue, float64(t.Exported))
	ch <- prometheus.MustNewConstMetric(c.dropped, prometheus.CounterValue, float64(t.Full), "full")
	ch <- prometheus.MustNewConstMetric(c.dropped, prometheus.CounterValue, float64(t.Failed), "failed")
	ch <- prometheus.MustNewConstMetric(c.waiting, prometheus.GaugeValue, float64(t.Waiting))
}
