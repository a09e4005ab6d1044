package affinity

import "github.com/capgate/capgate/internal/lib/metric"

// Metrics implements metric.Source. No label has a value that a caller can choose.
func (r *Resolver) Metrics() *metric.Set {
	m := metric.New("capgate_")
	known := m.Add("affinity_known", "Sessions and artifacts with a backend in memory.", "what")
	lost := m.Add("sessions_lost_total", "Calls that got SESSION_LOST because their session's backend died.")
	lookups := m.Add("affinity_lookups_total",
		"Lookups in the store for which calls waited, by result.", "result")
	local := m.Add("sessions_placed_locally_total",
		"Sessions that were pinned without the store because it was unavailable, slow or busy.")
	dropped := m.Add("artifacts_dropped_total",
		"Artifacts unknown to other gateways because too many waited for the store.")
	m.Read = func(w metric.Writer) {
		a := r.Stats()
		w.Gauge(known, float64(a.Sessions), "sessions")
		w.Gauge(known, float64(a.Artifacts), "artifacts")
		w.Count(lost, a.Lost)
		w.Count(lookups, a.Lookups-a.Timeouts-a.Failures, "answered")
		w.Count(lookups, a.Timeouts, "timeout")
		w.Count(lookups, a.Failures, "failed")
		w.Count(local, a.Local)
		w.Count(dropped, a.Dropped)
	}
	return m
}
