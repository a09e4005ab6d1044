package telemetry

import (
	"fmt"
	"iter"
	"strings"
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

// Fleet holds figures of a fleet. The counters only grow.
type Fleet struct {
	Capability string

	Usable   int  // backends that get calls
	Down     int  // down by health checks
	Ejected  int  // ejected by outlier detection
	Off      int  // with the weight 0
	Draining int  // drained by an operator
	Panic    bool // fewer than half are healthy, and calls go to all that are not certainly dead

	Unusable []UnusableBackend // the first of those without calls

	Ejections          int64
	EjectionsPrevented int64 // failures that would have ejected a backend beyond half of the fleet
	Retries            int64 // retries
	RetriesDenied      int64 // retries that the budget denied

	Limited          bool  // the following fields are reported only for a fleet with max_concurrent
	ConcurrencyLimit int   // permits of this replica at the backends
	InFlight         int   // permits in use
	Waiting          int   // calls that wait for a permit
	Waits            int64 // calls that had to wait
	LimitRefused     int64 // calls that could not wait, or waited too long
}

// MaxUnusable is the number of unusable backends of a fleet that metrics name.
const MaxUnusable = 10

// UnusableBackend is a backend that gets no calls.
type UnusableBackend struct {
	Addr   string
	State  string // down, ejected, off or draining
	Reason string // one of few: a text that a backend chose would be a label without bounds
	Since  time.Time
}

// WatchFleets reports the fleets at every scrape, each capability once. It may be called from any goroutine.
func (m *Metrics) WatchFleets(fleets iter.Seq[Fleet]) {
	m.fleets.read.Store(new(func() iter.Seq[Fleet] { return fleets }))
}

// fleetMetrics are the metrics of fleets. Only unusable backends are labels, MaxUnusable of a fleet: there may be
// 100,000 backends.
type fleetMetrics struct {
	metrics
	backends, unusable, panicking, ejections, retries, places, waiting, waits, limited *prometheus.Desc
}

func newFleets() *polled[iter.Seq[Fleet]] {
	m := fleetMetrics{metrics: metrics{prefix: "capgate_"}}
	m.backends = m.add("fleet_backends",
		"Backends by state: usable, down by health checks, ejected by outlier detection, off by weight "+
			"0, draining by an operator.",
		"capability", "state")
	m.unusable = m.add("backend_unusable_since_timestamp_seconds",
		fmt.Sprintf("When an unusable backend became so, 0: unknown; of the first %d of a fleet.", MaxUnusable),
		"capability", "backend", "state", "reason")
	m.panicking = m.add("fleet_panic",
		"1 while fewer than half of a fleet's backends are healthy and calls go to all that are not certainly dead.",
		"capability")
	m.ejections = m.add("ejections_total",
		"Ejected backends, and ejections that were prevented because at most half of a fleet is ejected.",
		"capability", "result")
	m.retries = m.add("retries_total", "Retries of calls that did not start, and those that the retry budget denied.",
		"capability", "result")
	m.places = m.add("fleet_places",
		"Permits of this replica for concurrent calls of a fleet with max_concurrent: used by "+
			"calls, and free.", "capability", "state")
	m.waiting = m.add("fleet_waiting", "Calls that wait for a backend below max_concurrent.",
		"capability")
	m.waits = m.add("limit_waits_total", "Calls that had to wait because of max_concurrent.", "capability")
	m.limited = m.add("limit_refused_total",
		"Calls that were rejected because of max_concurrent: too many waited, or they waited too long.", "capability")
	return &polled[iter.Seq[Fleet]]{metrics: m.metrics, emit: func(t emitter, all iter.Seq[Fleet]) {
		for f := range all {
			m.emit(t, &f)
		}
	}}
}

func (m *fleetMetrics) emit(t emitter, f *Fleet) {
	name := strings.ToValidUTF8(f.Capability, "\uFFFD")
	t.gauge(m.backends, float64(f.Usable), name, "usable")
	t.gauge(m.backends, float64(f.Down), name, "down")
	t.gauge(m.backends, float64(f.Ejected), name, "ejected")
	t.gauge(m.backends, float64(f.Off), name, "off")
	t.gauge(m.backends, float64(f.Draining), name, "draining")
	for _, b := range f.Unusable {
		since := 0.0
		if !b.Since.IsZero() {
			since = float64(b.Since.UnixMilli()) / 1000
		}
		t.gauge(m.unusable, since, name, strings.ToValidUTF8(b.Addr, "\uFFFD"), b.State, b.Reason)
	}
	t.flag(m.panicking, f.Panic, name)
	t.count(m.ejections, f.Ejections, name, "ejected")
	t.count(m.ejections, f.EjectionsPrevented, name, "spared")
	t.count(m.retries, f.Retries, name, "sent")
	t.count(m.retries, f.RetriesDenied, name, "denied")
	if f.Limited {
		t.gauge(m.places, float64(f.InFlight), name, "used")
		t.gauge(m.places, float64(max(f.ConcurrencyLimit-f.InFlight, 0)), name, "free")
		t.gauge(m.waiting, float64(f.Waiting), name)
		t.count(m.waits, f.Waits, name)
		t.count(m.limited, f.LimitRefused, name)
	}
}
