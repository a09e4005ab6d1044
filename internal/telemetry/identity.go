package telemetry

// Identities is what is to be told, when somebody scrapes, of finding out who calls.
type Identities struct {
	Counts  map[AuthResult]int64 // a fixed set, which only grows
	Entries int                  // API keys, tenants and tokens in memory
}

// AuthResult is a kind of credential, and how it was found out whose it is: two words of
// fixed sets.
type AuthResult struct{ Kind, Result string }

// WatchIdentities lets every scrape report what ask answers. It may be called from any
// goroutine.
func (m *Metrics) WatchIdentities(ask func() Identities) { m.identities.read.Store(&ask) }

func newIdentities() *polled[Identities] {
	m := metrics{prefix: "capgate_"}
	found := m.add("identifications_total",
		"Calls of which it was found out who makes them, by the kind of credential: from memory; asked: "+
			"it was not in memory; refused: the credential is not good; away: who would know did not answer, so that "+
			"it was refused.", "kind", "result")
	entries := m.add("identity_cache_entries",
		"API keys and tenants of Redis in memory, ids that are not there, and tokens that were verified.")
	return &polled[Identities]{metrics: m, emit: func(t emitter, i Identities) {
		for of, n := range i.Counts {
			t.count(found, n, of.Kind, of.Result)
		}
		t.gauge(entries, float64(i.Entries))
	}}
}
