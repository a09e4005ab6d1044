package observe

import "github.com/prometheus/client_golang/prometheus"

// Overload is how much of what the process can take is in use: 1 is all of it, 0 where
// there is no limit.
type Overload struct{ InFlight, Memory, Delay float64 }

// WatchOverload lets every scrape report what ask answers. It may be called from any goroutine.
func (m *Metrics) WatchOverload(ask func() Overload) { m.overload.Store(&ask) }

func newOverloadDesc() *prometheus.Desc {
	return prometheus.NewDesc("capgate_overload",
		"How much of its own limits the process uses: from 1 on calls are turned away. Of is in_flight, memory or delay.", []string{"of"}, nil)
}

func collectOverload(ch chan<- prometheus.Metric, desc *prometheus.Desc, o Overload) {
	for of, used := range map[string]float64{"in_flight": o.InFlight, "memory": o.Memory, "delay": o.Delay} {
		ch <- prometheus.MustNewConstMetric(desc, prometheus.GaugeValue, used, of)
	}
}
