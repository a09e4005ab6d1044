package policy

import "github.com/capgate/capgate/internal/lib/metric"

// Metrics implements metric.Source. They are those of the cache of decisions by stored rules.
func (d *Decider) Metrics() *metric.Set {
	m := metric.New("capgate_policy_")
	lookups := m.Add("lookups_total",
		"Lookups of decisions that were not in the cache, by result.", "result")
	entries := m.Add("cache_entries", "Cached decisions.")
	age := m.Add("staleness_seconds", "Time since the cache was last known to be consistent with Redis.")
	lost := m.Add("rules_lost", "1 while Redis has lost rules, so that calls without a cached decision are rejected.")
	m.Read = func(w metric.Writer) {
		s := d.Stats()
		w.Count(lookups, s.Misses-s.Failures, "found")
		w.Count(lookups, s.Failures, "failed")
		w.Gauge(entries, float64(s.Entries))
		w.Gauge(age, s.Age.Seconds())
		w.Flag(lost, s.Lost)
	}
	return m
}
