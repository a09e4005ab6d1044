package telemetry

import "time"

// Approvals is what is to be told of calls that people are asked about when somebody
// scrapes. The counters only grow.
type Approvals struct {
	Events  map[string]int64 // what this replica did, or found: a fixed set of words
	Refused map[string]int64 // calls, by reason: a fixed set of words
	Waiting int64            // calls that wait for an answer now

	Pending map[string]Pending // what people are asked for, at all replicas, by TenantMetrics.Label
}

// Pending is what of some tenants waits for an answer.
type Pending struct {
	Count  int
	Oldest time.Time // when the oldest was asked for
}

// WatchApprovals lets every scrape report what ask answers. It may be called from any
// goroutine.
func (m *Metrics) WatchApprovals(ask func() Approvals) { m.approvals.read.Store(&ask) }

func newApprovals() *polled[Approvals] {
	m := metrics{prefix: "capgate_approvals_"}
	events := m.add("events_total", "What happened to approvals at this replica; granted are calls that ran "+
		"because of what was answered for their session.",
		"event")
	refused := m.add("refused_total", "Calls that approvals did not let run.", "reason")
	waiting := m.add("waiting", "Calls that wait for an answer.")
	pending := m.add("pending", "Approvals that nobody has answered, of all replicas, as counted a few seconds ago.",
		"tenant")
	age := m.add("pending_age_seconds", "How long the oldest of them waits.", "tenant")
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
