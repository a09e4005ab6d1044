package telemetry

// Leases counts requests to the store for permits of tenants' limits, by result. The counters only grow.
type Leases struct {
	Granted  int64 // the store granted all that was requested
	Denied   int64 // the store granted less, or nothing
	OwnShare int64 // the store did not answer in time, and the replica used its even share
	Failed   int64 // requests that failed
}

// WatchLeases calls ask at every scrape. It may be called from any goroutine.
func (m *Metrics) WatchLeases(ask func() Leases) { m.leases.read.Store(&ask) }

func newLeases() *polled[Leases] {
	m := metrics{prefix: "capgate_limit_"}
	leases := m.add("leases_total", "Requests of this replica for permits of tenants' limits, by result.", "result")
	return &polled[Leases]{metrics: m, emit: func(t emitter, l Leases) {
		t.count(leases, l.Granted, "granted")
		t.count(leases, l.Denied, "denied")
		t.count(leases, l.OwnShare, "own_share")
		t.count(leases, l.Failed, "failed")
	}}
}
