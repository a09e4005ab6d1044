package telemetry

import (
	"iter"
	"strings"
	"time"
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
func (m *Metrics) WatchCatalog(tools iter.Seq[Tools]) {
	m.tools.read.Store(new(func() iter.Seq[Tools] { return tools }))
}

// newCatalog's metrics have no tool as a label.
func newCatalog() *polled[iter.Seq[Tools]] {
	m := metrics{prefix: "capgate_catalog_"}
	known := m.add("tools", "Tools that are known, by whether they are what was accepted, or have drifted.",
		"capability", "state")
	discoveries := m.add("discoveries_total",
		"Discoveries of a capability's tools by this replica: succeeded, or failed.", "capability", "result")
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
