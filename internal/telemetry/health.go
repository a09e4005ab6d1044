package telemetry

import "time"

// Health is what is to be told of health checks when somebody scrapes.
type Health struct {
	Probes uint64 // made so far
	Probed int    // backends that this replica probes

	Shared      bool          // with other replicas; the rest is for then
	Replicas    int           // that live, as far as is known; 0: the roll does not answer
	Agree       int           // of them, those whose digest says what is known here
	Staleness   time.Duration // since what others know was last seen
	Unpublished int           // transitions that wait to be told
}

// WatchHealth lets every scrape report what ask answers. It may be called from any
// goroutine.
func (m *Metrics) WatchHealth(ask func() Health) { m.health.read.Store(&ask) }

func newHealth() *polled[Health] {
	m := metrics{prefix: "capgate_health_"}
	probes := m.add("probes_total", "Health checks of backends that this replica made.")
	probed := m.add("backends_probed", "Backends that this replica probes; others' are probed by other replicas.")
	replicas := m.add("replicas", "Live replicas that share the probing, this one included; 0 while Redis does not say.")
	agree := m.add("replicas_agreeing", "Live replicas that say of their backends what is known here.")
	staleness := m.add("staleness_seconds", "Time since Redis was last seen to say what other replicas know.")
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
