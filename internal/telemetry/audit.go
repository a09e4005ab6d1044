package telemetry

// Audit holds figures of the audit log.
type Audit struct {
	Written uint64            // records
	Lost    map[string]uint64 // lost records by reason, one of a bounded set
	Failing bool              // the last write failed
}

// WatchAudit calls ask at every scrape. It may be called from any goroutine.
func (m *Metrics) WatchAudit(ask func() Audit) { m.audit.read.Store(&ask) }

func newAudit() *polled[Audit] {
	m := metrics{prefix: "capgate_audit_"}
	written := m.add("records_total", "Records that were written to the audit log.")
	lost := m.add("lost_total", "Records that could not be written to the audit log.", "reason")
	failing := m.add("failing", "1 while the audit log cannot be written.")
	return &polled[Audit]{metrics: m, emit: func(t emitter, a Audit) {
		t.count(written, int64(a.Written))
		for reason, n := range a.Lost {
			t.count(lost, int64(n), reason)
		}
		t.flag(failing, a.Failing)
	}}
}
