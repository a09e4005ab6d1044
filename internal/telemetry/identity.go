package telemetry

import "time"

// Identities holds figures of authentication.
type Identities struct {
	Counts  map[AuthResult]int64 // a fixed set, which only grows
	Entries int                  // API keys, tenants and tokens in memory
	Shared  bool                 // there are tenants in Redis; otherwise Age is zero
	Age     time.Duration        // since the cache was last known to have every change of Redis' tenants and keys
}

// AuthResult is a kind of credential and the result of its authentication: two labels of fixed sets.
type AuthResult struct{ Kind, Result string }

// WatchIdentities calls ask at every scrape. It may be called from any goroutine.
func (m *Metrics) WatchIdentities(ask func() Identities) { m.identities.read.Store(&ask) }

func newIdentities() *polled[Identities] {
	m := metrics{prefix: "capgate_"}
	found := m.add("identifications_total",
		"Authentications of calls, by kind of credential and result. memory: answered from memory; asked: "+
			"the store or issuer answered; refused: the credential is invalid; away: neither answered, so "+
			"the call was refused.", "kind", "result")
	entries := m.add("identity_cache_entries",
		"Cached API keys and tenants of Redis, negative entries, and verified tokens.")
	age := m.add("identity_staleness_seconds",
		"Time since the cache of API keys and tenants was last known to be consistent with Redis.")
	return &polled[Identities]{metrics: m, emit: func(t emitter, i Identities) {
		for of, n := range i.Counts {
			t.count(found, n, of.Kind, of.Result)
		}
		t.gauge(entries, float64(i.Entries))
		if i.Shared {
			t.gauge(age, i.Age.Seconds())
		}
	}}
}
