package history

import "github.com/capgate/capgate/internal/lib/metric"

// Metrics implements metric.Source.
func (l *Log) Metrics() *metric.Set {
	m := metric.New("capgate_history_")
	others := m.Add("others_total", "Calls that the history counts as other, because history.series is reached.",
		"kind")
	m.Read = func(w metric.Writer) {
		l.mu.Lock()
		defer l.mu.Unlock()
		for kind, name := range kindNames {
			w.Count(others, l.others[kind], name)
		}
	}
	return m
}
