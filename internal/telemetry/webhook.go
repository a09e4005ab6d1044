package telemetry

// Webhook is what is to be told of telling a URL of approvals when somebody scrapes. The
// counters only grow.
type Webhook struct {
	Events          map[string]int64 // what became of events at this replica: a fixed set of words
	Requests        map[string]int64 // a fixed set of words
	Queued, Letters int              // of all replicas
}

// WatchWebhook lets every scrape report what ask answers. It may be called from any
// goroutine.
func (m *Metrics) WatchWebhook(ask func() Webhook) { m.webhook.read.Store(&ask) }

func newWebhook() *polled[Webhook] {
	m := metrics{prefix: "capgate_webhook_"}
	events := m.add("events_total", "What became of events of approvals that the webhook is to be told of: "+
		"delivered; dead: given up; "+
		"late: questions that nobody could answer any more; dropped: there was no room.", "result")
	requests := m.add("requests_total",
		"Requests to the webhook that failed, and those that were not an event's first.", "kind")
	queued := m.add("queued", "Events that wait to be told, at all replicas.")
	dead := m.add("dead_letters", "Events that were given up and are kept, of all replicas.")
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
