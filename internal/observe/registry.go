package observe

import (
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

// Registry is what is to be told of the backends that DNS and registrations name when
// somebody scrapes.
type Registry struct {
	DNS, Registered int           // backends, by where they come from
	LookupsFailed   int64         // looks at a name without a full answer, so far
	StoreFailed     int64         // readings and writes of registrations that failed, so far
	Ignored         int           // registrations that make no sense or are not permitted, now
	Stale           time.Duration // since registrations could be read last; 0 while they can
}

// WatchRegistry lets every scrape report what ask answers. It may be called from any goroutine.
func (m *Metrics) WatchRegistry(ask func() Registry) { m.members.Store(&ask) }

type registryDescs struct{ backends, lookups, store, ignored, stale *prometheus.Desc }

func newRegistryDescs() registryDescs {
	desc := func(name, help string, labels ...string) *prometheus.Desc {
		return prometheus.NewDesc("capgate_registry_"+name, help, labels, nil)
	}
	return registryDescs{
		backends: desc("backends", "Backends that the configuration does not list one by one, by where they come from.", "source"),
		lookups:  desc("dns_failures_total", "Looks at a DNS name without a full answer: the last one stayed in force."),
		store:    desc("store_failures_total", "Readings and writes of registrations that failed: what was known stayed in force."),
		ignored:  desc("ignored_registrations", "Registrations in Redis that make no sense here, or are not permitted."),
		stale:    desc("stale_seconds", "Time since registrations could be read last; 0 while they can."),
	}
}

func (d *registryDescs) all() []*prometheus.Desc {
	return []*prometheus.Desc{d.backends, d.lookups, d.store, d.ignored, d.stale}
}

func (d *registryDescs) collect(ch chan<- prometheus.Metric, r *Registry) {
	ch <- prometheus.MustNewConstMetric(d.backends, prometheus.GaugeValue, float64(r.DNS), "dns")
	ch <- prometheus.MustNewConstMetric(d.backends, prometheus.GaugeValue, float64(r.Registered), "registration")
	ch <- prometheus.MustNewConstMetric(d.lookups, prometheus.CounterValue, float64(r.LookupsFailed))
	ch <- prometheus.MustNewConstMetric(d.store, prometheus.CounterValue, float64(r.StoreFailed))
	ch <- prometheus.MustNewConstMetric(d.ignored, prometheus.GaugeValue, float64(r.Ignored))
	ch <- prometheus.MustNewConstMetric(d.stale, prometheus.GaugeValue, r.Stale.Seconds())
}
