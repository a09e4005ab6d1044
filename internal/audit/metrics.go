package audit

import "github.com/capgate/capgate/internal/lib/metric"

// Metrics implements metric.Source.
func (l *Log) Metrics() *metric.Set {
	m := metric.New("capgate_audit_")
	written := m.Add("records_total", "Records that were written to the audit log.")
	lost := m.Add("lost_total", "Records that could not be written to the audit log.", "reason")
	failing := m.Add("failing", "1 while the audit log cannot be written.")
	m.Read = func(w metric.Writer) {
		a := l.Stats()
		w.Count(written, int64(a.Written))
		for reason, n := range a.Lost {
			w.Count(lost, int64(n), Lost(reason).String())
		}
		w.Flag(failing, a.Failing)
	}
	return m
}
