package telemetry

import (
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

// Approvals holds figures of approvals. The counters only grow.
type Approvals struct {
	Events  map[string]int64 // events at this replica: a fixed set of labels
	Refused map[string]int64 // refused calls by reason: a fixed set of labels
	Waiting int64            // calls that wait for an answer
	TTL     time.Duration    // time to answer

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
	ttl := m.add("ttl_seconds", "Time to answer an approval, after which it expires.")
	return &polled[Approvals]{metrics: m, emit: func(t emitter, a Approvals) {
		t.gauge(ttl, a.TTL.Seconds())
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

// newAnswers returns the times of people, which may take a day.
func newAnswers() *prometheus.HistogramVec {
	return prometheus.NewHistogramVec(prometheus.HistogramOpts{Name: "capgate_approvals_answer_seconds",
		Help:    "Time from the creation of an approval to its answer, at the replica that got the answer.",
		Buckets: []float64{1, 5, 15, 30, 60, 120, 300, 600, 1800, 3600, 4 * 3600, 24 * 3600}}, []string{"tenant"})
}

// ObserveAnswer counts the time that an answer to an approval of a tenant took.
func (m *Metrics) ObserveAnswer(tenant string, took time.Duration) {
	m.answers.WithLabelValues(m.Tenant(tenant).Label()).Observe(max(0, took.Seconds()))
}
