package catalog

import (
	"time"

	"github.com/capgate/capgate/internal/lib/metric"
)

// Metrics implements metric.Source. No tool is a label.
func (c *Catalog) Metrics() *metric.Set {
	m := metric.New("capgate_catalog_")
	known := m.Add("tools", "Known tools, by state: accepted, or drifted.",
		"capability", "state")
	discoveries := m.Add("discoveries_total",
		"Discoveries of a capability's tools by this replica, by result.", "capability", "result")
	age := m.Add("discovery_age_seconds", "Time since a replica last discovered a capability's tools.", "capability")
	m.Read = func(w metric.Writer) {
		for of := range c.Stats() {
			name := of.Capability
			w.Gauge(known, float64(of.Tools-of.Drifted), name, "accepted")
			w.Gauge(known, float64(of.Drifted), name, "drifted")
			if !of.Dynamic {
				continue
			}
			w.Count(discoveries, of.Discoveries.Succeeded, name, "succeeded")
			w.Count(discoveries, of.Discoveries.Failed, name, "failed")
			if !of.Succeeded.IsZero() {
				w.Gauge(age, max(time.Since(of.Succeeded).Seconds(), 0), name)
			}
		}
	}
	return m
}
