package telemetry

// Issuer holds figures of an issuer of tokens. The counters only grow, unless its configuration changes.
type Issuer struct {
	Name    string
	Up      bool             // the last fetch of its keys succeeded
	Fetches map[string]int64 // a fixed set of labels
}

// WatchIssuers calls ask at every scrape. It may be called from any goroutine. Names become label values.
func (m *Metrics) WatchIssuers(ask func() []Issuer) { m.issuers.read.Store(&ask) }

func newIssuers() *polled[[]Issuer] {
	m := metrics{prefix: "capgate_issuer_"}
	up := m.add("up", "1 if the last fetch of the keys of an issuer of tokens succeeded.", "issuer")
	fetches := m.add("fetches_total", "Fetches of the keys of an issuer of tokens, by result: ok; failed; "+
		"limited: skipped because of too many unknown keys.", "issuer", "result")
	return &polled[[]Issuer]{metrics: m, emit: func(t emitter, all []Issuer) {
		for _, i := range all {
			t.flag(up, i.Up, i.Name)
			for result, n := range i.Fetches {
				t.count(fetches, n, i.Name, result)
			}
		}
	}}
}
