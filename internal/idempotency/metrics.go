package idempotency

import "github.com/capgate/capgate/internal/lib/metric"

// Metrics implements metric.Source.
func (k *Service) Metrics() *metric.Set {
	m := metric.New("capgate_idempotency_")
	calls := m.Add("calls_total", "Calls with idempotency keys, by result; first: it ran; replayed and joined: "+
		"it got the response of the first call.", "result")
	running := m.Add("running", "Calls with idempotency keys that are running.")
	waiting := m.Add("waiting", "Callers that wait for the end of such a call.")
	m.Read = func(w metric.Writer) {
		i := k.Stats()
		for result, n := range i.Calls {
			w.Count(calls, n, result)
		}
		w.Gauge(running, float64(i.Running))
		w.Gauge(waiting, float64(i.Waiting))
	}
	return m
}
