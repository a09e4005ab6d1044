package telemetry

import (
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

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
