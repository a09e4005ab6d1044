package redisstore

import "github.com/capgate/capgate/internal/lib/metric"

// Metrics implements metric.Source.
func (s *Store) Metrics() *metric.Set {
	m := metric.New("capgate_redis_")
	commands := m.Add("commands_total", "Commands sent to Redis, by purpose.", "for")
	errors := m.Add("errors_total", "Commands to Redis that failed, or were not sent because Redis is unavailable.")
	malformed := m.Add("malformed_total", "Values in Redis that could not be decoded and were ignored.")
	unreplicated := m.Add("unreplicated_total",
		"Redemptions of approvals and claims of idempotency keys that too few Redis replicas acknowledged in time.")
	rejected := m.Add("rejected_total",
		"Records in Redis without a valid signature of secret_file, which count as absent.", "kind")
	up := m.Add("up", "1 while Redis responds, else 0. An embedded one always responds.")
	m.Read = func(w metric.Writer) {
		r := s.Stats()
		for purpose, n := range r.Commands {
			w.Count(commands, n, purpose.String())
		}
		w.Count(errors, r.Errors)
		w.Count(malformed, r.Malformed)
		w.Count(unreplicated, r.Unreplicated)
		for kind, n := range r.Rejected {
			w.Count(rejected, n, string(kind))
		}
		w.Flag(up, !r.Unavailable)
	}
	return m
}
