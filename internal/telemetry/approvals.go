package telemetry

import "time"

// Approvals holds figures of approvals. The counters only grow.
type Approvals struct {
	Events  map[string]int64 // events at this replica: a fixed set of labels
	Refused map[string]int64 // refused calls by reason: a fixed set of labels
	Waiting int64            // calls that wait for an answer

	Pending map[string]Pending // unanswered approvals at all replicas, by TenantMetrics.Label
}

// Pending holds the unanswered approvals of some tenants.
type Pending struct {
	Count  int
	Oldest time.Time // when the oldest was created
}

// WatchApprovals calls ask at every scrape. It may be called from any goroutine.
func (m *Metrics) WatchApprovals(ask func() Approvals) { m.approvals.read.Store(&ask) }

func newApprovals() *polled[Approvals] {
	m := metrics{prefix: "capgate_approvals_"}
	events := m.add("events_total", "Events of approvals at this replica; granted counts calls that ran "+
		"because of an answer for their session.",
		"event")
	refused := m.add("refused_total", "Calls that were refused because of an approval, by reason.", "reason")
	waiting := m.add("waiting", "Calls that wait for an answer to their approval.")
	pending := m.add("pending", "Unanswered approvals at all replicas, as counted a few seconds ago.",
		"tenant")
	age := m.add("pending_age_seconds", "Age of the oldest unanswered approval.", "tenant")
	return &polled[Approvals]{metrics: m, emit: func(t emitter, a Approvals) {
		for event, n := range a.Events {
			t.count(events, n, event)
		}
		for reason, n := range a.Refused {
			t.count(refused, n, reason)
		}
		t.gauge(waiting, float64(a.Waiting))
		for label, p := range a.Pending {
			t.gauge(pending, float64(p.Count), label)
			t.gauge(age, max(0, time.Since(p.Oldest).Seconds()), label)
		}
	}}
}
