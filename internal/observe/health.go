package observe

import (
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

// Health is what is to be told of health checks when somebody scrapes.
type Health struct {
	Probes uint64 // made so far
	Probed int    // backends that this replica probes

	Shared    bool          // with other replicas; the rest is for then
	Replicas  int           // that live, as far as is known; 0: the roll does not answer
	Agree     int           // of them, those whose digest says what is known here
	Staleness time.Duration // since what others know was last seen
	Unposted  int           // transitions that wait to be told
}

// WatchHealth lets every scrape report what ask answers. It may be called from any
// goroutine.
func (m *Metrics) WatchHealth(ask func() Health) { m.health.Store(&ask) }

type healthDescs struct{ probes, probed, replicas, agree, staleness, unposted *prometheus.Desc }

func newHealthDescs() healthDescs {
	desc := func(name, help string) *prometheus.Desc {
		return prometheus.NewDesc("capgate_health_"+name, help, nil, nil)
	}
	return healthDescs{
		probes:    desc("probes_total", "Health checks of backends that this replica made."),
		probed:    desc("backends_probed", "Backends that this replica probes; others' are probed by other replicas."),
		replicas:  desc("replicas", "Live replicas that share the probing, this one included; 0 while Redis does not say."),
		agree:     desc("replicas_agreeing", "Live replicas that say of their backends what is known here."),
		staleness: desc("staleness_seconds", "Time since Redis was last seen to say what other replicas know."),
		unposted:  desc("unposted", "Transitions that wait to be written to Redis."),
	}
}

func (d *healthDescs) all() []*prometheus.Desc {
	return []*prometheus.Desc{d.probes, d.probed, d.replicas, d.agree, d.staleness, d.unposted}
}

func (d *healthDescs) collect(ch chan<- prometheus.Metric, h *Health) {
	gauge := func(d *prometheus.Desc, v float64) {
		ch <- prometheus.MustNewConstMetric(d, prometheus.GaugeValue, v)
	}
	ch <- prometheus.MustNewConstMetric(d.probes, prometheus.CounterValue, float64(h.Probes))
	gauge(d.probed, float64(h.Probed))
	if !h.Shared {
		return
	}
	gauge(d.replicas, float64(h.Replicas))
	gauge(d.agree, float64(h.Agree))
	gauge(d.staleness, h.Staleness.Seconds())
	gauge(d.unposted, float64(h.Unposted))
}
