package telemetry

// Leases is what became of questions to the store how much of its tenants' limits this replica may
// use. The counters only grow.
type Leases struct {
	Granted  int64 // it gave all that was asked for
	Denied   int64 // it gave less, or nothing
	OwnShare int64 // it did not answer in time, and the replica went by its own share
	Failed   int64 // questions that failed
}

// WatchLeases lets every scrape report what ask answers. It may be called from any goroutine.
func (m *Metrics) WatchLeases(ask func() Leases) { m.leases.read.Store(&ask) }

func newLeases() *polled[Leases] {
	m := metrics{prefix: "capgate_limit_"}
	leases := m.add("leases_total", "Questions how much of tenants' limits this replica may use.", "result")
	return &polled[Leases]{metrics: m, emit: func(t emitter, l Leases) {
		t.count(leases, l.Granted, "granted")
		t.count(leases, l.Denied, "denied")
		t.count(leases, l.OwnShare, "own_share")
		t.count(leases, l.Failed, "failed")
	}}
}
