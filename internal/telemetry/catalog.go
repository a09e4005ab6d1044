package telemetry

import (
	"iter"
	"strings"
	"time"
)

// Tools holds figures of a capability's tools. The counters only grow.
type Tools struct {
	Capability     string
	Known, Drifted int

	Dynamic           bool      // the following fields are reported only for a capability with discovery
	Succeeded, Failed int64     // discoveries by this replica
	Last              time.Time // last success of any replica; zero: never
}

// WatchCatalog reports the tools at every scrape, each capability once. It may be called from any goroutine.
func (m *Metrics) WatchCatalog(tools iter.Seq[Tools]) {
	m.tools.read.Store(new(func() iter.Seq[Tools] { return tools }))
}

// newCatalog returns the collector. No tool is a label.
func newCatalog() *polled[iter.Seq[Tools]] {
	m := metrics{prefix: "capgate_catalog_"}
	known := m.add("tools", "Known tools, by state: accepted, or drifted.",
		"capability", "state")
	discoveries := m.add("discoveries_total",
		"Discoveries of a capability's tools by this replica, by result.", "capability", "result")
	age := m.add("discovery_age_seconds", "Time since a replica last discovered a capability's tools.", "capability")
	return &polled[iter.Seq[Tools]]{metrics: m, emit: func(t emitter, all iter.Seq[Tools]) {
		for of := range all {
			name := strings.ToValidUTF8(of.Capability, "\uFFFD")
			t.gauge(known, float64(of.Known-of.Drifted), name, "accepted")
			t.gauge(known, float64(of.Drifted), name, "drifted")
			if !of.Dynamic {
				continue
			}
			t.count(discoveries, of.Succeeded, name, "succeeded")
			t.count(discoveries, of.Failed, name, "failed")
			if !of.Last.IsZero() {
				t.gauge(age, max(time.Since(of.Last).Seconds(), 0), name)
			}
		}
	}}
}
