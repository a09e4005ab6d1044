package observe

// WatchProxyProtocol lets every scrape report how many connections of trusted proxies were
// refused so far, as refused answers. It may be called from any goroutine.
func (m *Metrics) WatchProxyProtocol(refused func() uint64) { m.proxies.ask.Store(&refused) }

func newProxies() *watched[uint64] {
	m := metrics{prefix: "capgate_proxy_protocol_"}
	refused := m.add("refused_total", "Connections of trusted proxies without a PROXY header, or with a bad one.")
	return &watched[uint64]{metrics: m, tell: func(t told, n uint64) { t.count(refused, int64(n)) }}
}

// RefusedConnections is how many client connections were closed as there were too many, since the start.
type RefusedConnections struct {
	Network  int64 // of the same network
	Reserved int64 // of networks of which no client has authenticated lately
}

// WatchConnections lets every scrape report what ask answers. It may be called from any goroutine.
func (m *Metrics) WatchConnections(ask func() RefusedConnections) { m.connections.ask.Store(&ask) }

func newConnections() *watched[RefusedConnections] {
	m := metrics{prefix: "capgate_connections_"}
	refused := m.add("refused_total", "Client connections closed at once, as there are too many: of their network, or of networks without a credential.", "reason")
	return &watched[RefusedConnections]{metrics: m, tell: func(t told, n RefusedConnections) {
		t.count(refused, n.Network, "network")
		t.count(refused, n.Reserved, "reserved")
	}}
}
