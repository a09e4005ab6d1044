package health

import (
	"time"

	"github.com/capgate/capgate/internal/lib/metric"
)

// Metrics implements metric.Source.
func (p *Prober) Metrics() *metric.Set {
	m := metric.New("capgate_health_")
	probes := m.Add("probes_total", "Health checks of backends that this replica made.")
	probed := m.Add("backends_probed", "Backends that this replica probes. Other replicas probe the others.")
	replicas := m.Add("replicas", "Live replicas that share the probing, including this one; 0 while that is unknown.")
	agree := m.Add("replicas_agreeing", "Live replicas with the same state of backends as this one.")
	staleness := m.Add("staleness_seconds", "Time since this replica last read the state of other replicas from Redis.")
	unposted := m.Add("unposted", "Transitions that wait to be written to Redis.")
	began := time.Now()
	m.Read = func(w metric.Writer) {
		h := p.Stats()
		w.Count(probes, int64(h.Probes))
		w.Gauge(probed, float64(h.Probing))
		if !h.Shared {
			return
		}
		w.Gauge(replicas, float64(h.Replicas))
		w.Gauge(agree, float64(h.Agree))
		if h.LastContact.IsZero() {
			h.LastContact = began
		}
		w.Gauge(staleness, time.Since(h.LastContact).Seconds())
		w.Gauge(unposted, float64(h.Unpublished))
	}
	return m
}
