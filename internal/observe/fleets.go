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

	Limited      bool  // the rest is told only of a fleet with max_concurrent
	Places       int   // that this replica has at the backends
	PlacesUsed   int   // of these, by calls
	Waiting      int   // calls that wait for a place
	Waits        int64 // calls that had to wait
	LimitRefused int64 // calls that could not wait, or waited too long
}

// WatchFleets lets every scrape report what fleets yields, each capability once. It
// may be called from any goroutine.
func (m *Metrics) WatchFleets(fleets iter.Seq[Fleet]) { m.fleets.Store(&fleets) }

// fleetDescs are the metrics of fleets. None has a backend as a label: there may be
// 100,000 of them.
type fleetDescs struct{ backends, panicking, ejections, retries, places, waiting, waits, limited *prometheus.Desc }

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
		places:  desc("fleet_places", "Calls that this replica may have at a fleet's backends at once, as they share max_concurrent: used by calls, and free.", "capability", "state"),
		waiting: desc("fleet_waiting", "Calls that wait for a backend with fewer calls than max_concurrent.", "capability"),
		waits:   desc("limit_waits_total", "Calls that had to wait because of max_concurrent.", "capability"),
		limited: desc("limit_refused_total", "Calls that were refused because of max_concurrent: too many waited, or they waited too long.", "capability"),
	}
}

func (d *fleetDescs) all() []*prometheus.Desc {
	return []*prometheus.Desc{d.backends, d.panicking, d.ejections, d.retries, d.places, d.waiting, d.waits, d.limited}
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
	count := func(desc *prometheus.Desc, n int64, result ...string) {
		ch <- prometheus.MustNewConstMetric(desc, prometheus.CounterValue, float64(n), append([]string{name}, result...)...)
	}
	count(d.ejections, f.Ejections, "ejected")
	count(d.ejections, f.Spared, "spared")
	count(d.retries, f.Retries, "sent")
	count(d.retries, f.RetriesDenied, "denied")
	if f.Limited {
		gauge(d.places, f.PlacesUsed, "used")
		gauge(d.places, max(f.Places-f.PlacesUsed, 0), "free")
		gauge(d.waiting, f.Waiting)
		count(d.waits, f.Waits)
		count(d.limited, f.LimitRefused)
	}
}
