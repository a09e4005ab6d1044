package telemetry

import "time"

// Registry is what is to be told of the backends that DNS and registrations name when
// somebody scrapes.
type Registry struct {
	DNS, Registered int           // backends, by where they come from
	LookupsFailed   int64         // looks at a name without a full answer, so far
	StoreFailed     int64         // readings and writes of registrations that failed, so far
	Ignored         int           // registrations that make no sense or are not permitted, now
	Stale           time.Duration // since registrations could be read last; 0 while they can
}

// WatchRegistry lets every scrape report what ask answers. It may be called from any goroutine.
func (m *Metrics) WatchRegistry(ask func() Registry) { m.members.read.Store(&ask) }

func newRegistry() *polled[Registry] {
	m := metrics{prefix: "capgate_registry_"}
	backends := m.add("backends", "Backends that the configuration does not list one by one, by where they "+
		"come from.", "source")
	lookups := m.add("dns_failures_total", "Looks at a DNS name without a full answer: the last one stayed in force.")
	store := m.add("store_failures_total",
		"Readings and writes of registrations that failed: what was known stayed in force.")
	ignored := m.add("ignored_registrations", "Registrations in Redis that make no sense here, or are not permitted.")
	stale := m.add("stale_seconds", "Time since registrations could be read last; 0 while they can.")
	return &polled[Registry]{metrics: m, emit: func(t emitter, r Registry) {
		t.gauge(backends, float64(r.DNS), "dns")
		t.gauge(backends, float64(r.Registered), "registration")
		t.count(lookups, r.LookupsFailed)
		t.count(store, r.StoreFailed)
		t.gauge(ignored, float64(r.Ignored))
		t.gauge(stale, r.Stale.Seconds())
	}}
}
