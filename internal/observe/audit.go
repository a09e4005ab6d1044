package observe

import "github.com/prometheus/client_golang/prometheus"

// Audit is what is to be told of the audit log when somebody scrapes.
type Audit struct {
	Written uint64            // records
	Lost    map[string]uint64 // records that were not written, by reason, one of a bounded set
	Failing bool              // the last try to write failed
}

// WatchAudit lets every scrape report what ask answers. It may be called from any goroutine.
func (m *Metrics) WatchAudit(ask func() Audit) { m.registry.MustRegister(newAuditCollector(ask)) }

type auditCollector struct {
	ask                    func() Audit
	written, lost, failing *prometheus.Desc
}

func newAuditCollector(ask func() Audit) *auditCollector {
	desc := func(name, help string, labels ...string) *prometheus.Desc {
		return prometheus.NewDesc("capgate_audit_"+name, help, labels, nil)
	}
	return &auditCollector{
		ask:     ask,
		written: desc("records_total", "Records that were written to the audit log."),
		lost:    desc("lost_total", "Records that could not be written to the audit log.", "reason"),
		failing: desc("failing", "1 while the audit log cannot be written."),
	}
}

// Describe implements prometheus.Collector.
func (c *auditCollector) Describe(ch chan<- *prometheus.Desc) {
	ch <- c.written
	ch <- c.lost
	ch <- c.failing
}

// Collect implements prometheus.Collector.
func (c *auditCollector) Collect(ch chan<- prometheus.Metric) {
	a := c.ask()
	ch <- prometheus.MustNewConstMetric(c.written, prometheus.CounterValue, float64(a.Written))
	for reason, n := range a.Lost {
		ch <- prometheus.MustNewConstMetric(c.lost, prometheus.CounterValue, float64(n), reason)
	}
	failing := 0.0
	if a.Failing {
		failing = 1
	}
	ch <- prometheus.MustNewConstMetric(c.failing, prometheus.GaugeValue, failing)
}
