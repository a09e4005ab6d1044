package telemetry

// WatchProxyProtocol lets every scrape report how many connections of trusted proxies were
// refused so far, as refused answers. It may be called from any goroutine.
func (m *Metrics) WatchProxyProtocol(refused func() uint64) { m.proxies.read.Store(&refused) }

func newProxies() *polled[uint64] {
	m := metrics{prefix: "capgate_proxy_protocol_"}
	refused := m.add("refused_total", "Connections of trusted proxies without a PROXY header, or with a bad one.")
	return &polled[uint64]{metrics: m, emit: func(t emitter, n uint64) { t.count(refused, int64(n)) }}
}

// ConnectionRejections is how many client connections were closed as there were too many, since the start, and how many wait.
type ConnectionRejections struct {
	Network   int64 // closed: too many of the same network
	Reserved  int64 // closed: too many of networks of which no client has authenticated lately
	Handshake int64 // closed: too many handshakes of the same network waited
	Memory    int64 // closed: their owner had no room for another
	Waiting   int   // TLS handshakes that wait for a processor
}

// WatchConnections lets every scrape report what ask answers. It may be called from any goroutine.
func (m *Metrics) WatchConnections(ask func() ConnectionRejections) { m.connections.read.Store(&ask) }

func newConnections() *polled[ConnectionRejections] {
	m := metrics{prefix: "capgate_connections_"}
	refused := m.add("refused_total",
		"Client connections closed at once, as there are too many: of their network, of networks without a "+
			"credential, of handshakes of their network, or for the memory that their owner has.", "reason")
	waiting := m.add("handshakes_waiting", "TLS handshakes that wait for a processor.")
	return &polled[ConnectionRejections]{metrics: m, emit: func(t emitter, n ConnectionRejections) {
		t.count(refused, n.Network, "network")
		t.count(refused, n.Reserved, "reserved")
		t.count(refused, n.Handshake, "handshake")
		t.count(refused, n.Memory, "memory")
		t.gauge(waiting, float64(n.Waiting))
	}}
}
