package observe

import "github.com/prometheus/client_golang/prometheus"

// WatchProxyProtocol lets every scrape report how many connections of trusted proxies were
// refused so far, as refused answers. It may be called from any goroutine.
func (m *Metrics) WatchProxyProtocol(refused func() uint64) {
	m.registry.MustRegister(prometheus.NewCounterFunc(prometheus.CounterOpts{
		Name: "capgate_proxy_protocol_refused_total",
		Help: "Connections of trusted proxies without a PROXY header, or with a bad one.",
	}, func() float64 { return float64(refused()) }))
}
