package telemetry

import (
	"github.com/prometheus/client_golang/prometheus"

	"github.com/capgate/capgate/internal/call"
)

// Shield is what is to be told of one shield when somebody scrapes. The counters only grow.
type Shield struct {
	Name      string
	Answered  [call.Allow + 1][2]int64 // calls, by verdict; [1]: without asking
	Absent    int64                    // questions without an answer
	Malformed int64                    // questions whose answer could not be understood
	Asked     uint64                   // questions in all
	Took      map[float64]uint64       // those that took no more than so many seconds
	Seconds   float64                  // that all took together
}

// WatchShields lets every scrape report what ask answers. It may be called from any
// goroutine. Names become label values.
func (m *Metrics) WatchShields(ask func() []Shield) { m.shields.read.Store(&ask) }

func newShields() *polled[[]Shield] {
	m := metrics{prefix: "capgate_shield_"}
	verdicts := m.add("verdicts_total", "Calls that a shield judged, by what it said, and whether memory knew.",
		"shield", "decision", "cached")
	failures := m.add("failures_total",
		"Questions to a shield that it did not answer (absent), or not so that anybody understands it (malformed).",
		"shield", "kind")
	duration := m.add("duration_seconds", "How long a shield took to answer.", "shield")
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
