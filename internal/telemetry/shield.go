package telemetry

import (
	"github.com/prometheus/client_golang/prometheus"

	"github.com/capgate/capgate/internal/call"
)

// Shield holds figures of one shield. The counters only grow.
type Shield struct {
	Name      string
	Answered  [call.Allow + 1][2]int64 // calls by verdict; [1]: from memory
	Absent    int64                    // requests without a response
	Malformed int64                    // requests with an invalid response
	Asked     uint64                   // all requests
	Took      map[float64]uint64       // requests that took at most so many seconds
	Seconds   float64                  // sum of all durations
}

// WatchShields calls ask at every scrape. It may be called from any goroutine. Names become label values.
func (m *Metrics) WatchShields(ask func() []Shield) { m.shields.read.Store(&ask) }

func newShields() *polled[[]Shield] {
	m := metrics{prefix: "capgate_shield_"}
	verdicts := m.add("verdicts_total", "Calls judged by a shield, by verdict, and whether it was cached.",
		"shield", "decision", "cached")
	failures := m.add("failures_total",
		"Requests to a shield without a response (absent), or with an invalid one (malformed).",
		"shield", "kind")
	duration := m.add("duration_seconds", "Response times of a shield.", "shield")
	return &polled[[]Shield]{metrics: m, emit: func(t emitter, all []Shield) {
		for i := range all {
			s := &all[i]
			for verdict, counts := range s.Answered {
				t.count(verdicts, counts[0], s.Name, call.Verdict(verdict).String(), "false")
				t.count(verdicts, counts[1], s.Name, call.Verdict(verdict).String(), "true")
			}
			t.count(failures, s.Absent, s.Name, "absent")
			t.count(failures, s.Malformed, s.Name, "malformed")
			t <- prometheus.MustNewConstHistogram(duration, s.Asked, s.Seconds, s.Took, s.Name)
		}
	}}
}
