package observe

import (
	"sync/atomic"

	"github.com/prometheus/client_golang/prometheus"
)

// Affinity is what is to be told of sessions and artifacts when somebody scrapes. The
// int64s are counters.
type Affinity struct {
	Sessions  int   // in memory
	Artifacts int   // in memory
	Lost      int64 // calls that were told SESSION_LOST
	Lookups   int64 // questions to the store of calls that waited
	Timeouts  int64 // of these, such that had no answer in time
	Failures  int64 // of these, such that failed otherwise
	Local     int64 // sessions that were placed without the store
	Dropped   int64 // artifacts that the store was not told of
}

// WatchAffinity lets every scrape report what tell says. It may be called from any
// goroutine.
func (m *Metrics) WatchAffinity(tell func() Affinity) { m.affinity.tell.Store(&tell) }

// affinityCollector reports sessions and artifacts. None of its metrics has a label that
// a caller could choose.
type affinityCollector struct {
	tell atomic.Pointer[func() Affinity]

	known, lost, lookups, local, dropped *prometheus.Desc
}

func newAffinityCollector() *affinityCollector {
	desc := func(name, help string, labels ...string) *prometheus.Desc {
		return prometheus.NewDesc("capgate_"+name, help, labels, nil)
	}
	return &affinityCollector{
		known:   desc("affinity_known", "Sessions, and artifacts, of which it is in memory which backend has them.", "what"),
		lost:    desc("sessions_lost_total", "Calls that were told SESSION_LOST: their session's backend had died."),
		lookups: desc("affinity_lookups_total", "Questions to the store of calls that waited for the answer, by what became of them.", "result"),
		local:   desc("sessions_placed_locally_total", "Sessions that were placed without asking the store, as it was away, slow or busy."),
		dropped: desc("artifacts_dropped_total", "Artifacts that other gateways will not know of, as too many waited for the store."),
	}
}

// Describe implements prometheus.Collector.
func (c *affinityCollector) Describe(ch chan<- *prometheus.Desc) {
	for _, d := range []*prometheus.Desc{c.known, c.lost, c.lookups, c.local, c.dropped} {
		ch <- d
	}
}

// Collect implements prometheus.Collector.
func (c *affinityCollector) Collect(ch chan<- prometheus.Metric) {
	tell := c.tell.Load()
	if tell == nil {
		return
	}
	a := (*tell)()
	gauge := func(n int, what string) {
		ch <- prometheus.MustNewConstMetric(c.known, prometheus.GaugeValue, float64(n), what)
	}
	gauge(a.Sessions, "sessions")
	gauge(a.Artifacts, "artifacts")
	count := func(d *prometheus.Desc, n int64, labels ...string) {
		ch <- prometheus.MustNewConstMetric(d, prometheus.CounterValue, float64(n), labels...)
	}
	count(c.lost, a.Lost)
	count(c.lookups, a.Lookups-a.Timeouts-a.Failures, "answered")
	count(c.lookups, a.Timeouts, "timeout")
	count(c.lookups, a.Failures, "failed")
	count(c.local, a.Local)
	count(c.dropped, a.Dropped)
}
