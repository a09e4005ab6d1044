package telemetry

// Idempotency holds figures of calls with idempotency keys. The counters only grow.
type Idempotency struct {
	Calls   map[string]int64 // calls by result: a fixed set of labels
	Running int64            // calls that this replica runs
	Waiting int64            // callers that wait for the end of such a call
}

// WatchIdempotency calls ask at every scrape. It may be called from any goroutine.
func (m *Metrics) WatchIdempotency(ask func() Idempotency) { m.idempotency.read.Store(&ask) }

func newIdempotency() *polled[Idempotency] {
	m := metrics{prefix: "capgate_idempotency_"}
	calls := m.add("calls_total", "Calls with idempotency keys, by result; first: it ran; replayed and joined: "+
		"it got the response of the first call.", "result")
	running := m.add("running", "Calls with idempotency keys that are running.")
	waiting := m.add("waiting", "Callers that wait for the end of such a call.")
	return &polled[Idempotency]{metrics: m, emit: func(t emitter, i Idempotency) {
		for result, n := range i.Calls {
			t.count(calls, n, result)
		}
		t.gauge(running, float64(i.Running))
		t.gauge(waiting, float64(i.Waiting))
	}}
}
