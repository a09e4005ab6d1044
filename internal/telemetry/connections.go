package telemetry

// WatchProxyProtocol calls refused at every scrape for the number of refused connections of trusted proxies. It
// may be called from any goroutine.
func (m *Metrics) WatchProxyProtocol(refused func() uint64) { m.proxies.read.Store(&refused) }

func newProxies() *polled[uint64] {
	m := metrics{prefix: "capgate_proxy_protocol_"}
	refused := m.add("refused_total", "Connections of trusted proxies with a missing or invalid PROXY header.")
	return &polled[uint64]{metrics: m, emit: func(t emitter, n uint64) { t.count(refused, int64(n)) }}
}

// ConnectionRejections holds the number of client connections that were closed since the start, and of waiting
// handshakes.
type ConnectionRejections struct {
	Network   int64 // closed: too many connections of their network
	Reserved  int64 // closed: too many connections of networks without a recent valid credential
	Handshake int64 // closed: too many waiting handshakes of their network
	Memory    int64 // closed: their owner had no memory left
	Evicted   int64 // closed without a credential, to make room for new ones
	Waiting   int   // TLS handshakes that wait for a processor
}

// WatchConnections calls ask at every scrape. It may be called from any goroutine.
func (m *Metrics) WatchConnections(ask func() (public, admin ConnectionRejections)) {
	both := func() [2]ConnectionRejections {
		public, admin := ask()
		return [2]ConnectionRejections{public, admin}
	}
	m.connections.read.Store(&both)
}

func newConnections() *polled[[2]ConnectionRejections] {
	m := metrics{prefix: "capgate_"}
	refused := m.add("connections_refused_total",
		"Client connections closed at once because of a limit: of their network, of networks without a "+
			"credential, of handshakes of their network, or of their owner's memory.", "reason")
	waiting := m.add("connections_handshakes_waiting", "TLS handshakes that wait for a processor.")
	admin := m.add("admin_connections_refused_total",
		"Connections of the admin API closed because of a limit: of their network, of handshakes of their network, of "+
			"their owner's memory, or without a credential to make room for others (evicted).", "reason")
	return &polled[[2]ConnectionRejections]{metrics: m, emit: func(t emitter, both [2]ConnectionRejections) {
		n := &both[0]
		t.count(refused, n.Network, "network")
		t.count(refused, n.Reserved, "reserved")
		t.count(refused, n.Handshake, "handshake")
		t.count(refused, n.Memory, "memory")
		t.gauge(waiting, float64(n.Waiting))
		n = &both[1]
		t.count(admin, n.Network, "network")
		t.count(admin, n.Handshake, "handshake")
		t.count(admin, n.Memory, "memory")
		t.count(admin, n.Evicted, "evicted")
	}}
}
