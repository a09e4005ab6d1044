package clientaddr

import "github.com/capgate/capgate/internal/lib/metric"

// Metrics implements metric.Source.
func (r *Resolver) Metrics() *metric.Set {
	m := metric.New("capgate_proxy_protocol_")
	refused := m.Add("refused_total", "Connections of trusted proxies with a missing or invalid PROXY header.")
	m.Read = func(w metric.Writer) { w.Count(refused, int64(r.Rejected())) }
	return m
}
