package telemetry

// Issuer is what is to be told of an issuer of tokens when somebody scrapes. The counters only
// grow, unless its configuration changes.
type Issuer struct {
	Name    string
	Up      bool             // the last fetch of its keys went well
	Fetches map[string]int64 // a fixed set of words
}

// WatchIssuers lets every scrape report what ask answers. It may be called from any
// goroutine. Names become label values.
func (m *Metrics) WatchIssuers(ask func() []Issuer) { m.issuers.read.Store(&ask) }

func newIssuers() *polled[[]Issuer] {
	m := metrics{prefix: "capgate_issuer_"}
	up := m.add("up", "Whether the keys of an issuer of tokens could be fetched the last time.", "issuer")
	fetches := m.add("fetches_total", "Fetches of the keys of an issuer of tokens: ok; failed; "+
		"limited: left out, as unknown keys were shown too often.", "issuer", "result")
	return &polled[[]Issuer]{metrics: m, emit: func(t emitter, all []Issuer) {
		for _, i := range all {
			t.flag(up, i.Up, i.Name)
			for result, n := range i.Fetches {
				t.count(fetches, n, i.Name, result)
			}
		}
	}}
}
