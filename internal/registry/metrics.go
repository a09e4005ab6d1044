package registry

import "github.com/capgate/capgate/internal/lib/metric"

// Metrics implements metric.Source.
func (r *Registry) Metrics() *metric.Set {
	m := metric.New("capgate_registry_")
	backends := m.Add("backends", "Backends that the configuration does not list one by one, by where they "+
		"come from.", "source")
	lookups := m.Add("dns_failures_total", "DNS lookups without a complete answer; the last addresses stayed in use.")
	store := m.Add("store_failures_total",
		"Reads and writes of registrations that failed; known registrations stayed in use.")
	ignored := m.Add("ignored_registrations",
		"Registrations in Redis that are invalid, or not permitted by this replica.")
	stale := m.Add("stale_seconds", "Time since registrations could last be read; 0 while they can.")
	m.Read = func(w metric.Writer) {
		s := r.Stats()
		w.Gauge(backends, float64(s.DNS), "dns")
		w.Gauge(backends, float64(s.Registered), "registration")
		w.Count(lookups, s.LookupsFailed)
		w.Count(store, s.StoreFailed)
		w.Gauge(ignored, float64(s.Ignored))
		w.Gauge(stale, s.Stale.Seconds())
	}
	return m
}
