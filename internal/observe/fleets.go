package observe

import (
	"iter"
	"strings"

	"github.com/prometheus/client_golang/prometheus"
)

// Fleet is what is to be told of a fleet when somebody scrapes. The counters only grow.
type Fleet struct {
	Capability string

	Usable   int  // backends that calls go to
	Down     int  // by probes
	Ejected  int  // by how calls ended
	Off      int  // of weight 0
	Draining int  // taken out by an operator
	Panic    bool // fewer than half are healthy, and calls go to all that are not surely dead

	Ejections     int64
	Spared        int64 // failures that would have ejected a backend, but for the half that must stay
	Retries       int64 // second tries
	RetriesDenied int64 // that the budget did not allow
}

// WatchFleets lets every scrape report what fleets yields, each capability once. It
// may be called from any goroutine.
func (m *Metrics) WatchFleets(fleets iter.Seq[Fleet]) { m.fleets.Store(&fleets) }

// fleetDescs are the metrics of fleets. None has a backend as a label: there may be
// 100,000 of them.
type fleetDescs struct{ backends, panicking, ejections, retries *prometheus.Desc }

func newFleetDescs() fleetDescs {
	desc := func(name, help string, labels ...string) *prometheus.Desc {
		return prometheus.NewDesc("capgate_"+name, help, labels, nil)
	}
	return fleetDescs{
		backends: desc("fleet_backends", "Backends by what calls see of them: usable, down by probes, ejected by how calls ended, off by weight 0, draining by an operator.",
			"capability", "state"),
		panicking: desc("fleet_panic", "1 while fewer than half of a fleet's backends are healthy and calls go to all that are not surely dead.", "capability"),
		ejections: desc("ejections_total", "Backends that were ejected, and failures whose backend was spared as half of the fleet must stay.",
			"capability", "result"),
		retries: desc("retries_total", "Second tries of calls that did not start, and those that the budget denied.", "capability", "result"),
	}
}

func (d *fleetDescs) all() []*prometheus.Desc {
	return []*prometheus.Desc{d.backends, d.panicking, d.ejections, d.retries}
}

func (d *fleetDescs) collect(ch chan<- prometheus.Metric, f *Fleet) {
	name := strings.ToValidUTF8(f.Capability, "\uFFFD")
	gauge := func(desc *prometheus.Desc, n int, labels ...string) {
		ch <- prometheus.MustNewConstMetric(desc, prometheus.GaugeValue, float64(n), append([]string{name}, labels...)...)
	}
	gauge(d.backends, f.Usable, "usable")
	gauge(d.backends, f.Down, "down")
	gauge(d.backends, f.Ejected, "ejected")
	gauge(d.backends, f.Off, "off")
	gauge(d.backends, f.Draining, "draining")
	panicking := 0
	if f.Panic {
		panicking = 1
	}
	gauge(d.panicking, panicking)
	count := func(desc *prometheus.Desc, n int64, result string) {
		ch <- prometheus.MustNewConstMetric(desc, prometheus.CounterValue, float64(n), name, result)
	}
	count(d.ejections, f.Ejections, "ejected")
	count(d.ejections, f.Spared, "spared")
	count(d.retries, f.Retries, "sent")
	count(d.retries, f.RetriesDenied, "denied")
}
