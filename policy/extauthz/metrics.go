package extauthz

import (
	"github.com/capgate/capgate/internal/call"
	"github.com/capgate/capgate/internal/lib/metric"
)

// Metrics implements metric.Source. Names of shields are labels.
func (s *Shields) Metrics() *metric.Set {
	m := metric.New("capgate_shield_")
	verdicts := m.Add("verdicts_total", "Calls judged by a shield, by verdict, and whether it was cached.",
		"shield", "decision", "cached")
	failures := m.Add("failures_total",
		"Requests to a shield without a response (absent), or with an invalid one (malformed).",
		"shield", "kind")
	duration := m.Add("duration_seconds", "Response times of a shield.", "shield")
	m.Read = func(w metric.Writer) {
		for name, of := range s.Each() {
			for verdict, counts := range of.Answered {
				w.Count(verdicts, counts[0], name, call.Verdict(verdict).String(), "false")
				w.Count(verdicts, counts[1], name, call.Verdict(verdict).String(), "true")
			}
			w.Count(failures, of.Unreachable, name, "absent")
			w.Count(failures, of.Malformed, name, "malformed")
			n, atMost := uint64(0), make(map[float64]uint64, len(Buckets))
			for i, within := range of.Durations {
				n += uint64(within)
				if i < len(Buckets) {
					atMost[Buckets[i]] = n
				}
			}
			w.Histogram(duration, n, of.Seconds, atMost, name)
		}
	}
	return m
}
