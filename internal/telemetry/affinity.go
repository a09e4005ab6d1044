package telemetry

// Affinity is what is to be told of sessions and artifacts when somebody scrapes. The
// int64s are counters.
type Affinity struct {
	Sessions  int   // in memory
	Artifacts int   // in memory
	Lost      int64 // calls that were told SESSION_LOST
	Lookups   int64 // questions to the store of calls that waited
	Timeouts  int64 // of these, such that had no answer in time
	Failures  int64 // of these, such that failed otherwise
	Local     int64 // sessions that were placed without the store
	Dropped   int64 // artifacts that the store was not told of
}

// WatchAffinity lets every scrape report what ask answers. It may be called from any
// goroutine.
func (m *Metrics) WatchAffinity(ask func() Affinity) { m.affinity.read.Store(&ask) }

// newAffinity's metrics have no label that a caller could choose.
func newAffinity() *polled[Affinity] {
	m := metrics{prefix: "capgate_"}
	known := m.add("affinity_known", "Sessions, and artifacts, of which it is in memory which backend has them.", "what")
	lost := m.add("sessions_lost_total", "Calls that were told SESSION_LOST: their session's backend had died.")
	lookups := m.add("affinity_lookups_total",
		"Questions to the store of calls that waited for the answer, by what became of them.", "result")
	local := m.add("sessions_placed_locally_total",
		"Sessions that were placed without asking the store, as it was away, slow or busy.")
	dropped := m.add("artifacts_dropped_total",
		"Artifacts that other gateways will not know of, as too many waited for the store.")
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
