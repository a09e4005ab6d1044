package telemetry

// Webhook holds figures of the webhook. The counters only grow.
type Webhook struct {
	Events          map[string]int64 // events at this replica by result: a fixed set of labels
	Requests        map[string]int64 // a fixed set of labels
	Queued, Letters int              // of all replicas
}

// WatchWebhook calls ask at every scrape. It may be called from any goroutine.
func (m *Metrics) WatchWebhook(ask func() Webhook) { m.webhook.read.Store(&ask) }

func newWebhook() *polled[Webhook] {
	m := metrics{prefix: "capgate_webhook_"}
	events := m.add("events_total", "Events of approvals for the webhook, by result: "+
		"delivered; dead: given up; "+
		"late: approvals that had expired; dropped: the queue was full.", "result")
	requests := m.add("requests_total",
		"Requests to the webhook that failed, and those that were retries.", "kind")
	queued := m.add("queued", "Events that wait for delivery, at all replicas.")
	dead := m.add("dead_letters", "Dead letters: events that were given up, of all replicas.")
	return &polled[Webhook]{metrics: m, emit: func(t emitter, w Webhook) {
		for result, n := range w.Events {
			t.count(events, n, result)
		}
		for kind, n := range w.Requests {
			t.count(requests, n, kind)
		}
		t.gauge(queued, float64(w.Queued))
		t.gauge(dead, float64(w.Letters))
	}}
}
