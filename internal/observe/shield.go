package observe

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
func (m *Metrics) WatchShields(ask func() []Shield) { m.shields.Store(&ask) }

type shieldDescs struct{ verdicts, failures, duration *prometheus.Desc }

func newShieldDescs() shieldDescs {
	desc := func(name, help string, labels ...string) *prometheus.Desc {
		return prometheus.NewDesc("capgate_shield_"+name, help, labels, nil)
	}
	return shieldDescs{
		verdicts: desc("verdicts_total", "Calls that a shield judged, by what it said, and whether memory knew.", "shield", "decision", "cached"),
		failures: desc("failures_total", "Questions to a shield that it did not answer (absent), or not so that anybody understands it (malformed).", "shield", "kind"),
		duration: desc("duration_seconds", "How long a shield took to answer.", "shield"),
	}
}

func (d *shieldDescs) all() []*prometheus.Desc {
	return []*prometheus.Desc{d.verdicts, d.failures, d.duration}
}

func (d *shieldDescs) collect(ch chan<- prometheus.Metric, s *Shield) {
	for verdict, counts := range s.Answered {
		for cached, word := range [...]string{"false", "true"} {
			ch <- prometheus.MustNewConstMetric(d.verdicts, prometheus.CounterValue, float64(counts[cached]),
				s.Name, call.Verdict(verdict).String(), word)
		}
	}
	ch <- prometheus.MustNewConstMetric(d.failures, prometheus.CounterValue, float64(s.Absent), s.Name, "absent")
	ch <- prometheus.MustNewConstMetric(d.failures, prometheus.CounterValue, float64(s.Malformed), s.Name, "malformed")
	ch <- prometheus.MustNewConstHistogram(d.duration, s.Asked, s.Seconds, s.Took, s.Name)
}
