package observe

import (
	"sync/atomic"

	"github.com/prometheus/client_golang/prometheus"
)

// Webhook is what is to be told of telling a URL of approvals when somebody scrapes. The
// counters only grow.
type Webhook struct {
	Events          map[string]int64 // what became of events at this replica: a fixed set of words
	Requests        map[string]int64 // a fixed set of words
	Queued, Letters int              // of all replicas
}

// WatchWebhook lets every scrape report what ask answers. It may be called from any
// goroutine.
func (m *Metrics) WatchWebhook(ask func() Webhook) { m.webhook.ask.Store(&ask) }

type webhookCollector struct {
	ask atomic.Pointer[func() Webhook]

	events, requests, queued, dead *prometheus.Desc
}

func newWebhookCollector() *webhookCollector {
	desc := func(name, help string, labels ...string) *prometheus.Desc {
		return prometheus.NewDesc("capgate_webhook_"+name, help, labels, nil)
	}
	return &webhookCollector{
		events: desc("events_total", "What became of events of approvals that the webhook is to be told of: delivered; dead: given up; "+
			"late: questions that nobody could answer any more; dropped: there was no room.", "result"),
		requests: desc("requests_total", "Requests to the webhook that failed, and those that were not an event's first.", "kind"),
		queued:   desc("queued", "Events that wait to be told, at all replicas."),
		dead:     desc("dead_letters", "Events that were given up and are kept, of all replicas."),
	}
}

// Describe implements prometheus.Collector.
func (c *webhookCollector) Describe(ch chan<- *prometheus.Desc) {
	for _, d := range []*prometheus.Desc{c.events, c.requests, c.queued, c.dead} {
		ch <- d
	}
}

// Collect implements prometheus.Collector.
func (c *webhookCollector) Collect(ch chan<- prometheus.Metric) {
	ask := c.ask.Load()
	if ask == nil {
		return
	}
	w := (*ask)()
	for result, n := range w.Events {
		ch <- prometheus.MustNewConstMetric(c.events, prometheus.CounterValue, float64(n), result)
	}
	for kind, n := range w.Requests {
		ch <- prometheus.MustNewConstMetric(c.requests, prometheus.CounterValue, float64(n), kind)
	}
	ch <- prometheus.MustNewConstMetric(c.queued, prometheus.GaugeValue, float64(w.Queued))
	ch <- prometheus.MustNewConstMetric(c.dead, prometheus.GaugeValue, float64(w.Letters))
}
