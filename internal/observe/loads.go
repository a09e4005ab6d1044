package observe

import (
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

// ConfigLoads is what is to be told of the configuration when somebody scrapes.
type ConfigLoads struct {
	Failures    int64     // reloads that changed nothing, so far
	Failed      bool      // the newest was one
	LastSuccess time.Time // when the configuration in force was loaded
}

// WatchConfig lets every scrape report what loads answers. It may be called from any
// goroutine.
func (m *Metrics) WatchConfig(loads func() ConfigLoads) { m.config.Store(&loads) }

// configDescs are the metrics of the configuration.
type configDescs struct{ failures, successful, loaded *prometheus.Desc }

func newConfigDescs() configDescs {
	desc := func(name, help string) *prometheus.Desc {
		return prometheus.NewDesc("capgate_config_"+name, help, nil, nil)
	}
	return configDescs{
		failures:   desc("reload_failures_total", "Reloads of the configuration that changed nothing as a file was bad."),
		successful: desc("last_reload_successful", "1 if the newest configuration is in force."),
		loaded:     desc("last_reload_success_timestamp_seconds", "When the configuration in force was loaded."),
	}
}

func (d *configDescs) all() []*prometheus.Desc {
	return []*prometheus.Desc{d.failures, d.successful, d.loaded}
}

func (d *configDescs) collect(ch chan<- prometheus.Metric, l ConfigLoads) {
	successful := 1.0
	if l.Failed {
		successful = 0
	}
	ch <- prometheus.MustNewConstMetric(d.failures, prometheus.CounterValue, float64(l.Failures))
	ch <- prometheus.MustNewConstMetric(d.successful, prometheus.GaugeValue, successful)
	ch <- prometheus.MustNewConstMetric(d.loaded, prometheus.GaugeValue, float64(l.LastSuccess.UnixMilli())/1000)
}
