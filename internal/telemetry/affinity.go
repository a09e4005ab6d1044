package telemetry

// Affinity holds figures of sessions and artifacts. The int64s are counters.
type Affinity struct {
	Sessions  int   // in memory
	Artifacts int   // in memory
	Lost      int64 // calls that got SESSION_LOST
	Lookups   int64 // lookups in the store for which calls waited
	Timeouts  int64 // lookups that timed out
	Failures  int64 // lookups that failed otherwise
	Local     int64 // sessions that were pinned without the store
	Dropped   int64 // artifacts that could not be written to the store
}

// WatchAffinity calls ask at every scrape. It may be called from any goroutine.
func (m *Metrics) WatchAffinity(ask func() Affinity) { m.affinity.read.Store(&ask) }

// newAffinity returns the collector. No label has a value that a caller can choose.
func newAffinity() *polled[Affinity] {
	m := metrics{prefix: "capgate_"}
	known := m.add("affinity_known", "Sessions and artifacts whose backend is known in memory.", "what")
	lost := m.add("sessions_lost_total", "Calls that got SESSION_LOST because their session's backend died.")
	lookups := m.add("affinity_lookups_total",
		"Lookups in the store for which calls waited, by result.", "result")
	local := m.add("sessions_placed_locally_total",
		"Sessions that were pinned without the store because it was unavailable, slow or busy.")
	dropped := m.add("artifacts_dropped_total",
		"Artifacts unknown to other gateways because too many waited for the store.")
	return &polled[Affinity]{metrics: m, emit: func(t emitter, a Affinity) {
		t.gauge(known, float64(a.Sessions), "sessions")
		t.gauge(known, float64(a.Artifacts), "artifacts")
		t.count(lost, a.Lost)
		t.count(lookups, a.Lookups-a.Timeouts-a.Failures, "answered")
		t.count(lookups, a.Timeouts, "timeout")
		t.count(lookups, a.Failures, "failed")
		t.count(local, a.Local)
		t.count(dropped, a.Dropped)
	}}
}
