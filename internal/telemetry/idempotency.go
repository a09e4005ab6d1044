package telemetry

// Idempotency is what is to be told of calls with idempotency keys when somebody scrapes. The
// counters only grow.
type Idempotency struct {
	Calls   map[string]int64 // by what became of them: a fixed set of words
	Running int64            // that this replica carries out now
	Waiting int64            // callers who wait for the end of one
}

// WatchIdempotency lets every scrape report what ask answers. It may be called from any
// goroutine.
func (m *Metrics) WatchIdempotency(ask func() Idempotency) { m.idempotency.read.Store(&ask) }

func newIdempotency() *polled[Idempotency] {
	m := metrics{prefix: "capgate_idempotency_"}
	calls := m.add("calls_total", "Calls with idempotency keys; first: it was carried out, replayed and joined: "+
		"it got the first one's answer.", "result")
	running := m.add("running", "Calls with idempotency keys that are carried out.")
	waiting := m.add("waiting", "Callers who wait for the end of such a call.")
	return &polled[Idempotency]{metrics: m, emit: func(t emitter, i Idempotency) {
		for result, n := range i.Calls {
			t.count(calls, n, result)
		}
		t.gauge(running, float64(i.Running))
		t.gauge(waiting, float64(i.Waiting))
	}}
}
