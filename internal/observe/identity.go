package observe

import (
	"sync/atomic"

	"github.com/prometheus/client_golang/prometheus"
)

// Identities is what is to be told, when somebody scrapes, of finding out who calls.
type Identities struct {
	Counts  map[Identified]int64 // a fixed set, which only grows
	Entries int                  // API keys, tenants and tokens in memory
}

// Identified is a kind of credential, and how it was found out whose it is: two words of
// fixed sets.
type Identified struct{ Kind, Result string }

// WatchIdentities lets every scrape report what ask answers. It may be called from any
// goroutine.
func (m *Metrics) WatchIdentities(ask func() Identities) { m.identities.ask.Store(&ask) }

type identityCollector struct {
	ask atomic.Pointer[func() Identities]

	found, entries *prometheus.Desc
}

func newIdentityCollector() *identityCollector {
	return &identityCollector{
		found: prometheus.NewDesc("capgate_identifications_total", "Calls of which it was found out who makes them, by the kind of credential: from memory; asked: "+
			"it was not in memory; refused: the credential is not good; away: who would know did not answer, so that it was refused.", []string{"kind", "result"}, nil),
		entries: prometheus.NewDesc("capgate_identity_cache_entries", "API keys and tenants of Redis in memory, ids that are not there, and tokens that were verified.", nil, nil),
	}
}

// Describe implements prometheus.Collector.
func (c *identityCollector) Describe(ch chan<- *prometheus.Desc) {
	ch <- c.found
	ch <- c.entries
}

// Collect implements prometheus.Collector.
func (c *identityCollector) Collect(ch chan<- prometheus.Metric) {
	ask := c.ask.Load()
	if ask == nil {
		return
	}
	i := (*ask)()
	for of, n := range i.Counts {
		ch <- prometheus.MustNewConstMetric(c.found, prometheus.CounterValue, float64(n), of.Kind, of.Result)
	}
	ch <- prometheus.MustNewConstMetric(c.entries, prometheus.GaugeValue, float64(i.Entries))
}
