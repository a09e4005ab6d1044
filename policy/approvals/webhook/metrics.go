package webhook

import "github.com/capgate/capgate/internal/lib/metric"

// Metrics implements metric.Source.
func (g *Group) Metrics() *metric.Set {
	m := metric.New("capgate_webhook_")
	events := m.Add("events_total", "Events for a destination, by result: "+
		"delivered; dead: given up; "+
		"late: approvals that had expired; dropped: the queue was full.", "destination", "result")
	requests := m.Add("requests_total",
		"Requests to a destination that failed, and those that were retries.", "destination", "kind")
	queued := m.Add("queued", "Events that wait for delivery, at all replicas.", "destination")
	dead := m.Add("dead_letters", "Dead letters: events that were given up, of all replicas.", "destination")
	m.Read = func(w metric.Writer) {
		for _, d := range g.All() {
			s, name := d.Stats(), d.Name()
			w.Count(events, s.Delivered, name, "delivered")
			w.Count(events, s.Dead, name, "dead")
			w.Count(events, s.Skipped, name, "late")
			w.Count(events, s.Dropped, name, "dropped")
			w.Count(requests, s.Failed, name, "failed")
			w.Count(requests, s.Retried, name, "retried")
			w.Gauge(queued, float64(s.Queued), name)
			w.Gauge(dead, float64(s.Sizes.Dead), name)
		}
	}
	return m
}
