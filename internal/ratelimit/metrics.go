package ratelimit

import "github.com/capgate/capgate/internal/lib/metric"

// Metrics implements metric.Source.
func (l *Limiter) Metrics() *metric.Set {
	m := metric.New("capgate_limit_")
	leases := m.Add("leases_total", "Requests of this replica for permits of tenants' limits, by result.", "result")
	m.Read = func(w metric.Writer) {
		s := l.Stats()
		w.Count(leases, s.Granted, "granted")
		w.Count(leases, s.Denied, "denied")
		w.Count(leases, s.OwnShare, "own_share")
		w.Count(leases, s.Failed, "failed")
	}
	return m
}
