package observe

import (
	"sync/atomic"

	"github.com/prometheus/client_golang/prometheus"
)

// Issuer is what is to be told of an issuer of tokens when somebody scrapes. The counters only
// grow, unless its configuration changes.
type Issuer struct {
	Name    string
	Up      bool             // the last fetch of its keys went well
	Fetches map[string]int64 // a fixed set of words
}

// WatchIssuers lets every scrape report what ask answers. It may be called from any
// goroutine. Names become label values.
func (m *Metrics) WatchIssuers(ask func() []Issuer) { m.issuers.ask.Store(&ask) }

type issuersCollector struct {
	ask atomic.Pointer[func() []Issuer]

	up, fetches *prometheus.Desc
}

func newIssuersCollector() *issuersCollector {
	return &issuersCollector{
		up: prometheus.NewDesc("capgate_issuer_up", "Whether the keys of an issuer of tokens could be fetched the last time.", []string{"issuer"}, nil),
		fetches: prometheus.NewDesc("capgate_issuer_fetches_total", "Fetches of the keys of an issuer of tokens: ok; failed; "+
			"limited: left out, as unknown keys were shown too often.", []string{"issuer", "result"}, nil),
	}
}

// Describe implements prometheus.Collector.
func (c *issuersCollector) Describe(ch chan<- *prometheus.Desc) {
	ch <- c.up
	ch <- c.fetches
}

// Collect implements prometheus.Collector.
func (c *issuersCollector) Collect(ch chan<- prometheus.Metric) {
	ask := c.ask.Load()
	if ask == nil {
		return
	}
	for _, i := range (*ask)() {
		up := 0.0
		if i.Up {
			up = 1
		}
		ch <- prometheus.MustNewConstMetric(c.up, prometheus.GaugeValue, up, i.Name)
		for result, n := range i.Fetches {
			ch <- prometheus.MustNewConstMetric(c.fetches, prometheus.CounterValue, float64(n), i.Name, result)
		}
	}
}
