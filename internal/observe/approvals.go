package observe

import (
	"sync/atomic"

	"github.com/prometheus/client_golang/prometheus"
)

// Approvals is what is to be told of calls that people are asked about when somebody
// scrapes. The counters only grow.
type Approvals struct {
	Events  map[string]int64 // what this replica did, or found: a fixed set of words
	Refused map[string]int64 // calls, by reason: a fixed set of words
	Waiting int64            // calls that wait for an answer now
}

// WatchApprovals lets every scrape report what ask answers. It may be called from any
// goroutine.
func (m *Metrics) WatchApprovals(ask func() Approvals) { m.approvals.ask.Store(&ask) }

type approvalsCollector struct {
	ask atomic.Pointer[func() Approvals]

	events, refused, waiting *prometheus.Desc
}

func newApprovalsCollector() *approvalsCollector {
	desc := func(name, help string, labels ...string) *prometheus.Desc {
		return prometheus.NewDesc("capgate_approvals_"+name, help, labels, nil)
	}
	return &approvalsCollector{
		events: desc("events_total", "What happened to approvals at this replica; granted are calls that ran because of what was answered for their session.",
			"event"),
		refused: desc("refused_total", "Calls that approvals did not let run.", "reason"),
		waiting: desc("waiting", "Calls that wait for an answer."),
	}
}

// Describe implements prometheus.Collector.
func (c *approvalsCollector) Describe(ch chan<- *prometheus.Desc) {
	ch <- c.events
	ch <- c.refused
	ch <- c.waiting
}

// Collect implements prometheus.Collector.
func (c *approvalsCollector) Collect(ch chan<- prometheus.Metric) {
	ask := c.ask.Load()
	if ask == nil {
		return
	}
	a := (*ask)()
	for event, n := range a.Events {
		ch <- prometheus.MustNewConstMetric(c.events, prometheus.CounterValue, float64(n), event)
	}
	for reason, n := range a.Refused {
		ch <- prometheus.MustNewConstMetric(c.refused, prometheus.CounterValue, float64(n), reason)
	}
	ch <- prometheus.MustNewConstMetric(c.waiting, prometheus.GaugeValue, float64(a.Waiting))
}
