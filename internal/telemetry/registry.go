package telemetry

import "time"

// Registry holds figures of backends from DNS and registrations.
type Registry struct {
	DNS, Registered int           // backends by source
	LookupsFailed   int64         // lookups of a name without a complete answer
	StoreFailed     int64         // failed reads and writes of registrations
	Ignored         int           // current registrations that are invalid or not permitted
	Stale           time.Duration // time since registrations could last be read; 0 while they can
}

// WatchRegistry calls ask at every scrape. It may be called from any goroutine.
func (m *Metrics) WatchRegistry(ask func() Registry) { m.members.read.Store(&ask) }

func newRegistry() *polled[Registry] {
	m := metrics{prefix: "capgate_registry_"}
	backends := m.add("backends", "Backends that the configuration does not list one by one, by where they "+
		"come from.", "source")
	lookups := m.add("dns_failures_total", "DNS lookups without a complete answer; the last addresses stayed in use.")
	store := m.add("store_failures_total",
		"Reads and writes of registrations that failed; known registrations stayed in use.")
	ignored := m.add("ignored_registrations",
		"Registrations in Redis that are invalid, or not permitted by this replica.")
	stale := m.add("stale_seconds", "Time since registrations could last be read; 0 while they can.")
	return &polled[Registry]{metrics: m, emit: func(t emitter, r Registry) {
		t.gauge(backends, float64(r.DNS), "dns")
		t.gauge(backends, float64(r.Registered), "registration")
		t.count(lookups, r.LookupsFailed)
		t.count(store, r.StoreFailed)
		t.gauge(ignored, float64(r.Ignored))
		t.gauge(stale, r.Stale.Seconds())
	}}
}
