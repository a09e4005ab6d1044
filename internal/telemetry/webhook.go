package telemetry

// Webhook holds figures of a destination of notices. The counters only grow.
type Webhook struct {
	Destination     string           // its name in the configuration
	Events          map[string]int64 // events at this replica by result: a fixed set of labels
	Requests        map[string]int64 // a fixed set of labels
	Queued, Letters int              // of all replicas
}

// WatchWebhooks calls ask at every scrape. It may be called from any goroutine.
func (m *Metrics) WatchWebhooks(ask func() []Webhook) { m.webhook.read.Store(&ask) }

func newWebhook() *polled[[]Webhook] {
	m := metrics{prefix: "capgate_webhook_"}
	events := m.add("events_total", "Events of approvals for a destination, by result: "+
		"delivered; dead: given up; "+
		"late: approvals that had expired; dropped: the queue was full.", "destination", "result")
	requests := m.add("requests_total",
		"Requests to a destination that failed, and those that were retries.", "destination", "kind")
	queued := m.add("queued", "Events that wait for delivery, at all replicas.", "destination")
	dead := m.add("dead_letters", "Dead letters: events that were given up, of all replicas.", "destination")
	return &polled[[]Webhook]{metrics: m, emit: func(t emitter, all []Webhook) {
		for i := range all {
			w := &all[i]
			for result, n := range w.Events {
				t.count(events, n, w.Destination, result)
			}
			for kind, n := range w.Requests {
				t.count(requests, n, w.Destination, kind)
			}
			t.gauge(queued, float64(w.Queued), w.Destination)
			t.gauge(dead, float64(w.Letters), w.Destination)
		}
	}}
}
