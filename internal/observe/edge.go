package observe

// WatchProxyProtocol lets every scrape report how many connections of trusted proxies were
// refused so far, as refused answers. It may be called from any goroutine.
func (m *Metrics) WatchProxyProtocol(refused func() uint64) { m.proxies.ask.Store(&refused) }

func newProxies() *watched[uint64] {
	m := metrics{prefix: "capgate_proxy_protocol_"}
	refused := m.add("refused_total", "Connections of trusted proxies without a PROXY header, or with a bad one.")
	return &watched[uint64]{metrics: m, tell: func(t told, n uint64) { t.count(refused, int64(n)) }}
}
