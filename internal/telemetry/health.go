package telemetry

import "time"

// Health holds figures of health checks.
type Health struct {
	Probes uint64 // made so far
	Probed int    // backends that this replica probes

	Shared      bool          // with other replicas; the following fields need that
	Replicas    int           // live replicas; 0: the membership is unknown
	Agree       int           // replicas whose digest equals this replica's view
	Staleness   time.Duration // time since the state of other replicas was last read
	Unpublished int           // transitions that wait to be written
}

// WatchHealth calls ask at every scrape. It may be called from any goroutine.
func (m *Metrics) WatchHealth(ask func() Health) { m.health.read.Store(&ask) }

func newHealth() *polled[Health] {
	m := metrics{prefix: "capgate_health_"}
	probes := m.add("probes_total", "Health checks of backends that this replica made.")
	probed := m.add("backends_probed", "Backends that this replica probes. Other replicas probe the others.")
	replicas := m.add("replicas", "Live replicas that share the probing, including this one; 0 while that is unknown.")
	agree := m.add("replicas_agreeing", "Live replicas whose state of backends agrees with this replica's.")
	staleness := m.add("staleness_seconds", "Time since this replica last read the state of other replicas from Redis.")
	unposted := m.add("unposted", "Transitions that wait to be written to Redis.")
	return &polled[Health]{metrics: m, emit: func(t emitter, h Health) {
		t.count(probes, int64(h.Probes))
		t.gauge(probed, float64(h.Probed))
		if !h.Shared {
			return
		}
		t.gauge(replicas, float64(h.Replicas))
		t.gauge(agree, float64(h.Agree))
		t.gauge(staleness, h.Staleness.Seconds())
		t.gauge(unposted, float64(h.Unpublished))
	}}
}
