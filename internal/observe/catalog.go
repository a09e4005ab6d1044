package observe

import (
	"iter"
	"strings"
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

// Tools is what is to be told of a capability's tools when somebody scrapes. The counters
// only grow.
type Tools struct {
	Capability     string
	Known, Drifted int

	Dynamic           bool      // the rest is told only of a capability that is asked for its tools
	Succeeded, Failed int64     // discoveries by this replica
	Last              time.Time // when any replica's last succeeded; zero: never
}

// WatchCatalog lets every scrape report what tools yields, each capability once. It may be
// called from any goroutine.
func (m *Metrics) WatchCatalog(tools iter.Seq[Tools]) { m.tools.Store(&tools) }

// catalogDescs are the metrics of the catalog. None has a tool as a label.
type catalogDescs struct{ known, discoveries, age *prometheus.Desc }

func newCatalogDescs() catalogDescs {
	desc := func(name, help string, labels ...string) *prometheus.Desc {
		return prometheus.NewDesc("capgate_catalog_"+name, help, labels, nil)
	}
	return catalogDescs{
		known:       desc("tools", "Tools that are known, by whether they are what was accepted, or have drifted.", "capability", "state"),
		discoveries: desc("discoveries_total", "Discoveries of a capability's tools by this replica: succeeded, or failed.", "capability", "result"),
		age:         desc("discovery_age_seconds", "Time since a replica last discovered a capability's tools.", "capability"),
	}
}

func (d *catalogDescs) all() []*prometheus.Desc {
	return []*prometheus.Desc{d.known, d.discoveries, d.age}
}

func (d *catalogDescs) collect(ch chan<- prometheus.Metric, t *Tools) {
	name := strings.ToValidUTF8(t.Capability, "\uFFFD")
	ch <- prometheus.MustNewConstMetric(d.known, prometheus.GaugeValue, float64(t.Known-t.Drifted), name, "accepted")
	ch <- prometheus.MustNewConstMetric(d.known, prometheus.GaugeValue, float64(t.Drifted), name, "drifted")
	if !t.Dynamic {
		return
	}
	ch <- prometheus.MustNewConstMetric(d.discoveries, prometheus.CounterValue, float64(t.Succeeded), name, "succeeded")
	ch <- prometheus.MustNewConstMetric(d.discoveries, prometheus.CounterValue, float64(t.Failed), name, "failed")
	if !t.Last.IsZero() {
		ch <- prometheus.MustNewConstMetric(d.age, prometheus.GaugeValue, max(time.Since(t.Last).Seconds(), 0), name)
	}
}
