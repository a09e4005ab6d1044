package router

import (
	"fmt"

	"github.com/capgate/capgate/internal/lib/metric"
)

// maxUnusable is the number of unusable backends of a fleet that metrics name.
const maxUnusable = 10

// fleetMetrics are the metrics of fleets. Only unusable backends are labels, maxUnusable of a fleet: there may be
// 100,000 backends.
type fleetMetrics struct {
	backends, unusable, panicking, ejections, retries, places, waiting, waits, limited *metric.Desc
}

// Metrics implements metric.Source.
func (r *Router) Metrics() *metric.Set {
	set, m := metric.New("capgate_"), fleetMetrics{}
	m.backends = set.Add("fleet_backends",
		"Backends by state: usable, down by health checks, ejected by outlier detection, off by weight "+
			"0, draining by an operator.",
		"capability", "state")
	m.unusable = set.Add("backend_unusable_since_timestamp_seconds",
		fmt.Sprintf("When an unusable backend became so, 0: unknown; of the first %d of a fleet.", maxUnusable),
		"capability", "backend", "state", "reason")
	m.panicking = set.Add("fleet_panic",
		"1 while fewer than half of a fleet's backends are healthy and calls go to all that are not known to be down.",
		"capability")
	m.ejections = set.Add("ejections_total",
		"Ejected backends, and ejections that were prevented because at most half of a fleet is ejected.",
		"capability", "result")
	m.retries = set.Add("retries_total", "Retries of calls that did not start, and those that the retry budget denied.",
		"capability", "result")
	m.places = set.Add("fleet_places",
		"Permits of this replica for concurrent calls of a fleet with max_concurrent: used by "+
			"calls, and free.", "capability", "state")
	m.waiting = set.Add("fleet_waiting", "Calls that wait for a backend below max_concurrent.",
		"capability")
	m.waits = set.Add("limit_waits_total", "Calls that had to wait because of max_concurrent.", "capability")
	m.limited = set.Add("limit_refused_total",
		"Calls that were rejected because of max_concurrent: too many waited, or they waited too long.", "capability")
	set.Read = func(w metric.Writer) {
		for _, f := range r.Table().Fleets() {
			m.write(w, f)
		}
	}
	return set
}

func (m *fleetMetrics) write(w metric.Writer, fleet *Fleet) {
	name, f := fleet.Capability, fleet.Stats()
	w.Gauge(m.backends, float64(f.Usable), name, "usable")
	w.Gauge(m.backends, float64(f.Down), name, "down")
	w.Gauge(m.backends, float64(f.Ejected), name, "ejected")
	w.Gauge(m.backends, float64(f.Off), name, "off")
	w.Gauge(m.backends, float64(f.Draining), name, "draining")
	for _, b := range fleet.Unusable(maxUnusable) {
		since := 0.0
		if !b.Since.IsZero() {
			since = float64(b.Since.UnixMilli()) / 1000
		}
		w.Gauge(m.unusable, since, name, b.Addr, b.State, b.Cause())
	}
	w.Flag(m.panicking, f.Panic, name)
	w.Count(m.ejections, f.Ejections, name, "ejected")
	w.Count(m.ejections, f.EjectionOverflow, name, "spared")
	w.Count(m.retries, f.Retries, name, "sent")
	w.Count(m.retries, f.RetriesDenied, name, "denied")
	if f.Limited {
		w.Gauge(m.places, float64(f.PermitsUsed), name, "used")
		w.Gauge(m.places, float64(max(f.Permits-f.PermitsUsed, 0)), name, "free")
		w.Gauge(m.waiting, float64(f.Waiting), name)
		w.Count(m.waits, f.Waits, name)
		w.Count(m.limited, f.LimitRejected, name)
	}
}
