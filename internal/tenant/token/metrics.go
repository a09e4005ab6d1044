package token

import "github.com/capgate/capgate/internal/lib/metric"

// Metrics implements metric.Source. Names of issuers are labels.
func (v *Verifier) Metrics() *metric.Set {
	m := metric.New("capgate_issuer_")
	up := m.Add("up", "1 if the last fetch of the keys of an issuer of tokens succeeded.", "issuer")
	fetches := m.Add("fetches_total", "Fetches of the keys of an issuer of tokens, by result: ok; failed; "+
		"limited: skipped because of too many unknown keys.", "issuer", "result")
	m.Read = func(w metric.Writer) {
		for _, s := range v.Stats() {
			w.Flag(up, s.Up, s.Issuer)
			w.Count(fetches, s.Fetched, s.Issuer, "ok")
			w.Count(fetches, s.Failed, s.Issuer, "failed")
			w.Count(fetches, s.Limited, s.Issuer, "limited")
		}
	}
	return m
}
